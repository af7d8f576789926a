"""A LangGraph graph on a topic: python examples/frameworks/langgraph_agent.py [TOPIC].

It needs no network: the model is LangChain's own fake one. `gateway.adapters.langgraph.graph_events(run, graph, input,
config)` in place of `astream_events` asks people on the topic where the graph interrupts.
"""

import asyncio
import sys
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from gateway import Message, Publisher

model = GenericFakeChatModel(messages=iter([AIMessage(content="It is sunny in Rome.")]))


async def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await model.ainvoke(state["messages"])]}


async def main(topic: str) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    async with Publisher() as publisher, publisher.run(topic, agent="langgraph") as run:
        await run.add_message(Message.user("How is the weather?"))
        question = {"messages": [("user", "How is the weather?")]}
        await run.consume(graph.compile().astream_events(question, version="v2"))


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "chat:langgraph"))

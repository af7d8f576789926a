from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import adispatch_custom_event
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from gateway.adapters.consuming import consume
from gateway.adapters.langgraph import graph_events
from gateway.context.approval import Approve, Decision, Edit, Reject
from gateway.context.errors import ExecutionCancelled
from tests.adapters.sink import RecordingSink


class Scripted(GenericFakeChatModel):
    """LangChain's own fake model, that streams what it is given piece by piece."""

    messages: Iterator[Any]

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in next(self.messages):
            yield ChatGenerationChunk(message=piece)


def scripted(*answers: Sequence[AIMessageChunk]) -> Scripted:
    return Scripted(messages=iter(answers))


def call(*pieces: str, name: str = "add", id: str = "c1") -> list[AIMessageChunk]:
    return [
        AIMessageChunk(
            content="",
            tool_call_chunks=[
                {"name": name if first else None, "args": piece, "id": id if first else None, "index": 0}
            ],
        )
        for first, piece in ((not number, piece) for number, piece in enumerate(pieces))
    ]


USAGE = AIMessageChunk(
    content="",
    usage_metadata={
        "input_tokens": 5,
        "output_tokens": 3,
        "total_tokens": 8,
        "input_token_details": {"cache_read": 2},
    },
    response_metadata={"finish_reason": "tool_calls"},
)


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("broken")


def agent(model: Scripted, *tools: Any) -> Any:
    """Compile the usual loop of a model and its tools."""

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode(list(tools), handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    return graph.compile()


QUESTION: Any = {"messages": [("user", "1 + 2?")]}


async def test_text_thinking_calls_results_and_usage() -> None:
    thinking = AIMessageChunk(content=[{"type": "thinking", "thinking": "hm", "index": 0}])
    words = AIMessageChunk(content="Let me.")
    model = scripted([thinking, words, *call('{"a":1', ',"b":2}'), USAGE], [AIMessageChunk(content="It is 3.")])
    sink = RecordingSink()
    last = await consume(sink, agent(model, add).astream_events(QUESTION, version="v2"), adapter=None)
    first, second = sink.messages
    assert (first[0].text, first[0].thinking) == (first[1], first[2]) == ("Let me.", "hm")
    assert first[3] == ['{"a":1,"b":2}']
    assert [(one.id, one.name, one.arguments) for one in first[0].tool_calls or ()] == [("c1", "add", '{"a":1,"b":2}')]
    assert first[0].metadata["finish_reason"] == "tool_calls"
    assert sink.ran == [("c1", "add", '{"a":1,"b":2}', False)]
    assert sink.results == [("c1", "add", "3", False)]
    assert sink.order == ["message", "call", "result", "message"]
    assert last is second[0]
    (usage,) = sink.usages.values()
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens) == (5, 3, 2)
    assert sink.emitted == []


async def test_tool_that_fails_is_an_error() -> None:
    model = scripted(call("{}", name="fail"), [AIMessageChunk(content="No.")])
    sink = RecordingSink()
    await consume(sink, agent(model, fail).astream_events(QUESTION, version="v2"), adapter=None)
    assert [(one, name, error) for one, name, _, error in sink.results] == [("c1", "fail", True)]
    assert "broken" in sink.results[0][2]


async def test_models_side_by_side_write_a_message_each() -> None:
    both = RunnableParallel(
        one=scripted([AIMessageChunk(content="a"), AIMessageChunk(content="b")]),
        two=scripted([AIMessageChunk(content="x"), AIMessageChunk(content="y")]),
    )
    sink = RecordingSink()
    await consume(sink, both.astream_events("Go.", version="v2"), adapter=None)
    assert sorted(message.text for message, *_ in sink.messages) == ["ab", "xy"]


async def test_model_that_does_not_stream_is_read_at_its_end() -> None:
    whole = AIMessage(content="Whole.", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}])

    async def ends() -> AsyncIterator[Any]:
        yield {"event": "on_chat_model_start", "run_id": "r", "name": "m", "data": {}, "metadata": {}}
        yield {"event": "on_chat_model_end", "run_id": "r", "name": "m", "data": {"output": whole}, "metadata": {}}

    sink = RecordingSink()
    await consume(sink, ends(), adapter=None)
    assert sink.messages[0][0].text == "Whole."
    assert [one.arguments for one in sink.messages[0][0].tool_calls or ()] == ['{"a":1}']


async def test_sub_graphs_are_sub_agents() -> None:
    inner = agent(scripted(call('{"a":1,"b":2}'), [AIMessageChunk(content="Quiet.")]), add)
    outer_model = scripted([AIMessageChunk(content="It is quiet.")])

    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await outer_model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("scout", inner)
    graph.add_node("say", say)
    graph.add_edge(START, "scout")
    graph.add_edge("scout", "say")
    sink = RecordingSink()
    await consume(sink, graph.compile().astream_events(QUESTION, version="v2"), adapter=None)
    ((name, child),) = sink.children
    assert name == "scout"
    assert [message.text for message, *_ in child.messages] == ["", "Quiet."]
    assert child.results == [("c1", "add", "3", False)]
    assert [message.text for message, *_ in sink.messages] == ["It is quiet."]
    assert sink.ends == [None]


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (Approve(), {"decision": "approve"}),
        (Edit(arguments={"to": "staging"}), {"decision": "edit", "arguments": {"to": "staging"}}),
        (Reject(reason="no"), {"decision": "reject", "reason": "no"}),
    ],
)
async def test_people_decide_what_interrupts(decision: Decision, told: dict[str, Any]) -> None:
    heard: list[Any] = []

    async def ask(state: MessagesState) -> dict[str, Any]:
        assert state["messages"]
        heard.append(interrupt({"action": "deploy", "args": {"to": "prod"}}))
        return {"messages": []}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    compiled = graph.compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    sink = RecordingSink()
    sink.decisions = [decision]
    await consume(sink, graph_events(sink, compiled, QUESTION, config), adapter=None)
    assert [(asked.name, asked.arguments) for asked in sink.asked] == [("deploy", '{"to":"prod"}')]
    assert heard == [told]
    assert [event["type"] for event in sink.emitted] == ["langchain.interrupt"]


async def test_stop_after_the_step_ends_the_graph() -> None:
    sink = RecordingSink()

    @tool
    def look() -> str:
        """Look."""
        sink.stopped = "stopped by ann"
        return "seen"

    model = scripted(call("{}", name="look"), [AIMessageChunk(content="never")])
    with pytest.raises(ExecutionCancelled, match="stopped by ann"):
        await consume(sink, agent(model, look).astream_events(QUESTION, version="v2"), adapter=None)
    assert sink.order == ["message", "call", "result"]


async def test_custom_events_are_kept() -> None:
    async def work(_: str, config: RunnableConfig) -> str:
        await adispatch_custom_event("halfway", {"percent": 50}, config=config)
        return "done"

    sink = RecordingSink()
    await consume(sink, RunnableLambda(work).astream_events("go", version="v2"), adapter=None)
    assert sink.emitted == [{"type": "langchain.custom", "item": {"name": "halfway", "data": {"percent": 50}}}]

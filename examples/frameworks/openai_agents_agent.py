"""An agent of the OpenAI Agents SDK on a topic: python examples/frameworks/openai_agents_agent.py [TOPIC].

It needs no network: a model of a few lines stands in for OpenAI's. Leave `model=` out for the real one. A tool made
with `function_tool(needs_approval=True)` asks people on the topic.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, Runner, function_tool, set_tracing_disabled
from openai.types import responses

from gateway import Message, Publisher


class Scripted(Model):
    """Calls the tool, then says so."""

    def __init__(self) -> None:
        self._asked = 0

    async def get_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("this model only streams")

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self._asked += 1
        item: Any
        if self._asked == 1:
            call = {"type": "function_call", "id": "f1", "call_id": "c1"}
            item = call | {"name": "weather", "arguments": '{"city":"Rome"}'}
        else:
            text = {"type": "output_text", "text": "It is sunny in Rome.", "annotations": []}
            item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}
        common = {"id": f"r{self._asked}", "created_at": 1, "model": "scripted", "object": "response", "tools": []}
        common |= {"parallel_tool_calls": False, "tool_choice": "auto"}
        begun = responses.Response.model_validate(common | {"output": []})
        whole = responses.Response.model_validate(common | {"output": [item], "status": "completed"})
        place = {"output_index": 0, "sequence_number": 1, "item": whole.output[0]}
        yield responses.ResponseCreatedEvent(type="response.created", sequence_number=0, response=begun)
        yield responses.ResponseOutputItemAddedEvent(type="response.output_item.added", **place)
        yield responses.ResponseOutputItemDoneEvent(type="response.output_item.done", **place)
        yield responses.ResponseCompletedEvent(type="response.completed", sequence_number=2, response=whole)


@function_tool
def weather(city: str) -> str:
    return f"sunny in {city}"


async def main(topic: str) -> None:
    set_tracing_disabled(True)
    agent = Agent(name="forecaster", model=Scripted(), tools=[weather])
    async with Publisher() as publisher, publisher.run(topic, agent="openai-agents") as run:
        await run.add_message(Message.user("How is the weather?"))
        await run.consume(Runner.run_streamed(agent, "How is the weather?"))


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "chat:openai-agents"))

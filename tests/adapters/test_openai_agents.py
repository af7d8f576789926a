import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.models.openai_responses import OpenAIResponsesModel
from openai import AsyncOpenAI

from gateway.adapters.consuming import consume
from gateway.context.approval import Approve, Decision, Edit, Reject
from gateway.context.errors import ExecutionCancelled
from tests.adapters.sink import RecordingSink
from tests.agent.provider import HANG, Provider
from tests.serving import eventually

set_tracing_disabled(disabled=True)

USAGE = {
    "input_tokens": 5,
    "output_tokens": 3,
    "total_tokens": 8,
    "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


def response(id: str, output: list[dict[str, Any]], status: str = "completed") -> dict[str, Any]:
    return {
        "id": id,
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": output,
        "status": status,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE if status == "completed" else None,
    }


def streamed(id: str, *items: dict[str, Any]) -> list[Any]:
    """Give the events of a response as the provider sends them."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response(id, [], "in_progress")}]
    for index, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": index}
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}})
        if item["type"] == "message":
            delta = {"content_index": 0, "delta": item["content"][0]["text"], "logprobs": []}
            events.append({"type": "response.output_text.delta", **place, **delta})
        else:
            events.append({"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response(id, list(items))})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def text(words: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": content}


def call(name: str, id: str = "c1", **arguments: Any) -> dict[str, Any]:
    given = json.dumps(arguments)
    return {
        "type": "function_call",
        "id": f"f{id}",
        "call_id": id,
        "name": name,
        "arguments": given,
        "status": "completed",
    }


@asynccontextmanager
async def answering(*answers: list[Any]) -> AsyncIterator[OpenAIResponsesModel]:
    """Give a model of the SDK's own whose provider answers so."""
    async with (
        Provider(*answers, named=True) as server,
        AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        yield OpenAIResponsesModel("m", client)


async def test_connection_is_closed_when_the_run_is_stopped_in_mid_response() -> None:
    sink = RecordingSink()
    begun = streamed("r1", text("begun"))[:3]
    async with (
        Provider([*begun, HANG], named=True) as server,
        AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        agent = Agent(name="a", model=OpenAIResponsesModel("m", client))
        consuming = asyncio.create_task(consume(sink, Runner.run_streamed(agent, "Hi"), adapter=None))
        await eventually(lambda: sink.open_text)
        consuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consuming
        await asyncio.wait_for(server.left.wait(), 10)
    assert sink.open_text == "begun"


async def test_text_calls_results_usage_and_handoff() -> None:
    answers = [
        streamed("r1", call("look", at=3)),
        streamed("r2", call("transfer_to_other", id="c2")),
        streamed("r3", text("Done.")),
    ]

    @function_tool
    def look(at: int) -> str:
        return f"seen {at}"

    sink = RecordingSink()
    async with answering(*answers) as model:
        other = Agent(name="other", model=model)
        lead = Agent(name="lead", model=model, tools=[look], handoffs=[other])
        last = await consume(sink, Runner.run_streamed(lead, "Look."), adapter=None)
    assert [message.text for message, *_ in sink.messages] == ["", "", "Done."]
    assert last is sink.messages[-1][0]
    assert sink.ran == [("c1", "look", '{"at": 3}', False), ("c2", "transfer_to_other", "{}", False)]
    assert [(name, content, error) for _, name, content, error in sink.results] == [
        ("look", "seen 3", False),
        ("transfer_to_other", '{"assistant": "other"}', False),
    ]
    assert sink.order == ["message", "call", "result", "message", "call", "result", "message"]
    assert sink.agents == ["lead", "other"]
    assert [(usage.input_tokens, usage.output_tokens) for usage in sink.usages.values()] == [(5, 3)] * 3


@pytest.mark.parametrize(
    ("decision", "deployed", "told"),
    [
        (Approve(), ["prod"], "deployed prod"),
        (Edit(arguments={"to": "staging"}), [], '{"to":"staging"}'),
        (Reject(reason="not on a Friday"), [], "not on a Friday"),
    ],
)
async def test_people_decide(decision: Decision, deployed: list[str], told: str) -> None:
    ran: list[str] = []

    @function_tool(needs_approval=True)
    def deploy(to: str) -> str:
        ran.append(to)
        return f"deployed {to}"

    sink = RecordingSink()
    sink.decisions = [decision]
    async with answering(streamed("r1", call("deploy", to="prod")), streamed("r2", text("Done."))) as model:
        agent = Agent(name="a", model=model, tools=[deploy])
        await consume(sink, Runner.run_streamed(agent, "Deploy."), adapter=None)
    assert [(asked.id, asked.name, asked.arguments) for asked in sink.asked] == [("c1", "deploy", '{"to": "prod"}')]
    assert ran == deployed
    assert told in sink.results[0][2]
    assert sink.order == ["message", "call", "result", "message"]


async def test_stop_after_the_step_cancels_the_agent() -> None:
    sink = RecordingSink()

    @function_tool
    def look() -> str:
        sink.stopped = "stopped by ann"
        return "seen"

    async with answering(streamed("r1", call("look")), streamed("r2", text("never"))) as model:
        agent = Agent(name="a", model=model, tools=[look])
        result = Runner.run_streamed(agent, "Look.")
        with pytest.raises(ExecutionCancelled, match="stopped by ann"):
            await consume(sink, result, adapter=None)
        assert result.is_complete
    assert sink.order == ["message", "call", "result"]


async def test_events_alone_are_recognised() -> None:
    sink = RecordingSink()

    async def events(result: Any) -> AsyncIterator[Any]:
        async for event in result.stream_events():
            yield event

    async with answering(streamed("r1", text("Hi."))) as model:
        result = Runner.run_streamed(Agent(name="a", model=model), "Hi")
        await consume(sink, events(result), adapter=None)
    assert sink.messages[0][0].text == "Hi."

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import APIStatusError

from gateway.agent.anthropic_model import AnthropicModel, request_messages, request_system, request_tools
from gateway.agent.loop import answer
from gateway.agent.tools import CALCULATE
from gateway.broker.redis import RedisBroker
from gateway.context.content import ContentPart
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.errors import ProviderError
from gateway.publisher import Publisher
from tests.agent.provider import BREAK, HANG, Provider, Response
from tests.people import cancel
from tests.publishing import events, mirror, until
from tests.recordings import lines, read, recordings

TOPIC = "chat:1"


def message(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], id: str = "msg_1", stop: str) -> list[Any]:
    """Give the events of a response: of each block the start and the deltas."""
    start: dict[str, Any] = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": "local",
        "content": [],
        "stop_reason": None,
    }
    found: list[Any] = [
        {
            "type": "message_start",
            "message": {**start, "stop_sequence": None, "usage": {"input_tokens": 7, "output_tokens": 1}},
        }
    ]
    for index, (block, deltas) in enumerate(blocks):
        found.append({"type": "content_block_start", "index": index, "content_block": block})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": index})
    found += [
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    return found


def text(*pieces: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]


@contextlib.asynccontextmanager
async def provider(*responses: Response) -> AsyncIterator[tuple[AnthropicModel, Provider]]:
    async with Provider(*responses, named=True) as served:
        model = AnthropicModel("local", max_tokens=100, base_url=served.url, api_key="none")
        try:
            yield model, served
        finally:
            await model.aclose()


async def test_response_is_streamed_and_used(publisher: Publisher, broker: RedisBroker) -> None:
    thinking = (
        {"type": "thinking", "thinking": "", "signature": ""},
        [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "s1"}],
    )
    call = (
        {"type": "tool_use", "id": "c1", "name": "calculate", "input": {}},
        [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"expression":', '"6*7"}')],
    )
    asks = message(thinking, call, stop="tool_use")
    says = message(text("It is ", "42"), id="msg_2", stop="end_turn")
    async with provider(asks, says) as (model, served), publisher.run(TOPIC, agent="a") as run:
        await run.set_context(system_prompt="Be brief")
        await run.add_message(Message.user("6*7?"))
        answered = await answer(run, model, [CALCULATE])
        assert answered is not None
        assert (answered.text, answered.metadata["finish_reason"]) == ("It is 42", "end_turn")
        assert run.context.entries[1].thinking == "hm"
    first, second = served.asked
    assert (first["model"], first["max_tokens"], first["stream"], first["system"]) == ("local", 100, True, "Be brief")
    assert first["tools"][0]["name"] == "calculate"
    assert first["messages"] == [{"role": "user", "content": [{"type": "text", "text": "6*7?"}]}]
    assert [turn["role"] for turn in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        {"type": "tool_use", "id": "c1", "name": "calculate", "input": {"expression": "6*7"}},
    ]
    (result,) = second["messages"][2]["content"]
    assert (result["type"], result["tool_use_id"], result["is_error"]) == ("tool_result", "c1", False)
    assert json.loads(result["content"])["result"] == "42"
    usage = (await mirror(broker, TOPIC))["context"]["usage"]
    assert (usage["requests"], usage["input_tokens"], usage["output_tokens"]) == (2, 14, 10)


async def test_response_that_breaks_off_is_asked_for_again(publisher: Publisher, broker: RedisBroker) -> None:
    broken = [*message(text("half an"), stop="end_turn")[:3], BREAK]
    cut = message(text("half an"), stop="end_turn")[:3]
    whole = message(text("whole"), id="msg_2", stop="end_turn")
    async with provider(broken, cut, whole) as (model, served), publisher.run(TOPIC, agent="a") as run:
        assert (await model.respond(run, [])).text == "whole"
    assert len(served.asked) == 3
    kinds = [event["type"] for event in await events(broker, TOPIC)]
    assert (kinds.count("message_discarded"), kinds.count("assistant_message")) == (2, 1)


async def test_response_that_never_comes_is_an_error(publisher: Publisher) -> None:
    async with provider([], [], []) as (model, served), publisher.run(TOPIC, agent="a") as run:
        with pytest.raises(ProviderError, match="without a response"):
            await model.respond(run, [])
    assert len(served.asked) == 3


async def test_refused_request_is_the_runs_error(publisher: Publisher, broker: RedisBroker) -> None:
    async def agent(model: AnthropicModel) -> None:
        async with publisher.run(TOPIC, agent="a") as run:
            await model.respond(run, [])

    async with provider(401) as (model, _):
        with pytest.raises(APIStatusError):
            await agent(model)
    assert "401" in (await mirror(broker, TOPIC))["runs"][0]["error"]


@pytest.mark.parametrize(
    "response", [HANG, [*message(text("half an"), stop="")[:3], HANG]], ids=["silent", "in mid-stream"]
)
async def test_stop_closes_the_providers_connection(
    publisher: Publisher, broker: RedisBroker, response: Response
) -> None:
    async def stop() -> None:
        async def asked() -> bool:
            return bool(served.asked)

        await until(asked)
        await cancel(broker, TOPIC, run.id)

    async with provider(response) as (model, served):
        run = publisher.run(TOPIC, agent="a")
        async with run:
            await run.add_message(Message.user("Hi"))
            stopping = asyncio.create_task(stop())
            await answer(run, model)
            raise AssertionError("not reached")
        await stopping
        await asyncio.wait_for(served.left.wait(), 10)
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "cancelled"


@pytest.mark.streams
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(item.values[1], id=item.id, marks=item.marks)
        for item in recordings()
        if "openai" not in str(item.id)
    ],
)
async def test_recorded_stream_over_http_is_what_was_recorded(publisher: Publisher, path: Path) -> None:
    async with provider(lines(path)) as (model, _), publisher.run(TOPIC, agent="a") as run:
        last = await model.respond(run, [])
        written = [entry for entry in run.context.entries if entry.role == "assistant"]
    assert written[-1] == last
    found = [
        (
            entry.text,
            entry.thinking or "",
            [(call.id, call.name, json.loads(call.arguments)) for call in entry.tool_calls or ()],
        )
        for entry in written
    ]
    assert found == [(turn.text, turn.thinking, turn.calls) for turn in read("anthropic", path)]


def test_request_messages_have_the_form_of_the_messages_api() -> None:
    parts = (
        ContentPart.of_text("look"),
        ContentPart.of_image_url("https://example.org/a.png"),
        ContentPart(type="image", data="QUJD", media_type="image/jpeg"),
    )
    own = ToolCall(id="s1", name="search", arguments="{}", extra={"server": True})
    context = Context.new(
        system_prompt="Be brief",
        messages=[
            Message.system("And kind"),
            Message.user(parts),
            Message.assistant(
                "Let me see",
                reasoning_details=[{"type": "thinking", "thinking": "hm"}, {"type": "other"}],
                tool_calls=(ToolCall(id="c1", name="t", arguments='{"x": 1'), own),
            ),
            Message.tool("s1", "found"),
            Message.tool("c1", "no", metadata={"error": True}),
            Message.user("Well?"),
            Message.assistant(None),
            Message(role="reviewer", content="fine"),
        ],
    )
    assert request_system(context) == "Be brief\n\nAnd kind"
    first, second, third = request_messages(context)
    assert [block["type"] for block in first["content"]] == ["text", "image", "image"]
    assert first["content"][1]["source"] == {"type": "url", "url": "https://example.org/a.png"}
    assert first["content"][2]["source"] == {"type": "base64", "media_type": "image/jpeg", "data": "QUJD"}
    assert second == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me see"},
            {"type": "tool_use", "id": "c1", "name": "t", "input": {"invalid_arguments": '{"x": 1'}},
        ],
    }
    assert third["role"] == "user"
    assert [block.get("text") or block["is_error"] for block in third["content"]] == [True, "Well?", "fine"]


def test_request_tools() -> None:
    (described,) = request_tools([CALCULATE])
    assert described["input_schema"]["required"] == ["expression"]

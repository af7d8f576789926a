import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError

from gateway.agent.loop import answer
from gateway.agent.openai_model import OpenAIModel, request_messages, request_tools
from gateway.agent.tools import CALCULATE
from gateway.broker.redis import RedisBroker
from gateway.context.content import ContentPart
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.errors import ProviderError
from gateway.publisher import Publisher
from tests.agent.provider import BREAK, HANG, Provider, Response
from tests.people import cancel
from tests.publishing import events, mirror, until
from tests.recordings import lines, read, recordings

TOPIC = "chat:1"
USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}


def chunk(delta: dict[str, Any] | None, *, finish: str | None = None, call: str = "chatcmpl-1") -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    usage = USAGE if delta is None else None
    common = {"object": "chat.completion.chunk", "created": 1, "model": "local"}
    return {"id": call, **common, "choices": choices, "usage": usage}


@contextlib.asynccontextmanager
async def provider(*responses: Response) -> AsyncIterator[tuple[OpenAIModel, Provider]]:
    async with Provider(*responses, done=True) as served:
        model = OpenAIModel("local", base_url=f"{served.url}/v1", api_key="none")
        try:
            yield model, served
        finally:
            await model.aclose()


async def test_response_is_streamed_and_used(publisher: Publisher, broker: RedisBroker) -> None:
    arguments = [{"index": 0, "function": {"arguments": piece}} for piece in ('{"expression":', '"6*7"}')]
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "calculate", "arguments": ""}}
    asks = [
        chunk({"role": "assistant", "reasoning_content": "hm"}),
        chunk({"tool_calls": [first]}),
        *(chunk({"tool_calls": [piece]}) for piece in arguments),
        chunk({}, finish="tool_calls"),
        chunk(None),
    ]
    says = [chunk({"content": text}, call="chatcmpl-2") for text in ("It is ", "42")]
    says += [chunk({}, finish="stop", call="chatcmpl-2"), chunk(None, call="chatcmpl-2")]
    async with provider([*asks], [*says]) as (model, served), publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("6*7?"))
        message = await answer(run, model, [CALCULATE])
        assert message is not None
        assert (message.text, message.metadata["finish_reason"]) == ("It is 42", "stop")
        assert run.context.entries[1].thinking == "hm"
    first_request, second_request = served.asked
    assert (first_request["model"], first_request["stream"]) == ("local", True)
    assert first_request["stream_options"] == {"include_usage": True}
    assert first_request["tools"][0]["function"]["name"] == "calculate"
    assert first_request["messages"] == [{"role": "user", "content": "6*7?"}]
    assert [message["role"] for message in second_request["messages"]] == ["user", "assistant", "tool"]
    assert second_request["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"expression":"6*7"}'
    assert json.loads(second_request["messages"][2]["content"])["result"] == "42"
    usage = (await mirror(broker, TOPIC))["context"]["usage"]
    assert (usage["requests"], usage["input_tokens"], usage["output_tokens"]) == (2, 14, 4)


async def test_response_that_breaks_off_is_asked_for_again(publisher: Publisher, broker: RedisBroker) -> None:
    broken = [chunk({"content": "half an"}), BREAK]
    whole = [chunk({"content": "whole"}, call="2"), chunk({}, finish="stop", call="2"), chunk(None, call="2")]
    async with provider(broken, [*whole]) as (model, served), publisher.run(TOPIC, agent="a") as run:
        message = await model.respond(run, [])
        assert message.text == "whole"
    assert len(served.asked) == 2
    kinds = [event["type"] for event in await events(broker, TOPIC)]
    assert kinds.count("message_discarded") == 1
    assert kinds.count("assistant_message") == 1


@pytest.mark.parametrize("cut", ["break", "length"])
async def test_call_cut_at_any_byte_never_runs(publisher: Publisher, broker: RedisBroker, cut: str) -> None:
    """Report 52: neither where the stream breaks off nor where the provider says that it did."""
    ran: list[Any] = []
    whole = '{"to": "bob", "n": 12}'
    one = Tool(name="t", function=ran.append, takes_context=False)
    for length in range(len(whole)):
        first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "t", "arguments": whole[:length]}}
        half = [chunk({"tool_calls": [first]}), *([BREAK] if cut == "break" else [chunk({}, finish="length")])]
        says = [chunk({"content": "well"}, call="2"), chunk({}, finish="stop", call="2")]
        async with provider(half, says) as (model, served), publisher.run(f"cut:{length}", agent="a") as run:
            await run.add_message(Message.user("go"))
            await answer(run, model, [one])
            assert len(served.asked) == 2
        state = await mirror(broker, f"cut:{length}")
        assert state["context"]["tool_calls"] == []
        assert (state["runs"][0]["status"], state["open"]) == ("completed", [])
    assert ran == []


async def test_malformed_arguments_in_the_history_poison_no_later_request(
    publisher: Publisher, broker: RedisBroker
) -> None:
    """Report 53: the conversation keeps what the model wrote, marked by its result; a request wraps it."""
    bad = '{"to": "bob'
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "t", "arguments": bad}}
    asks = [chunk({"tool_calls": [first]}), chunk({}, finish="tool_calls")]
    says = [chunk({"content": "well"}, call="2"), chunk({}, finish="stop", call="2")]
    one = Tool(name="t", function=len, takes_context=False)
    async with provider(asks, says) as (model, served), publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("go"))
        await answer(run, model, [one])
    sent = served.asked[1]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"invalid_arguments": bad}
    kept = [event["data"] for event in (await mirror(broker, TOPIC))["context"]["events"]]
    (call,) = kept[1]["tool_calls"]
    assert bad in str(call)
    assert kept[2]["metadata"] == {"error": True}


async def test_response_that_always_breaks_off_fails_with_what_came(publisher: Publisher, broker: RedisBroker) -> None:
    async def agent(model: OpenAIModel) -> None:
        async with publisher.run(TOPIC, agent="a") as run:
            await model.respond(run, [])

    broken = [chunk({"content": "half an"})]
    async with provider([*broken], [*broken], [*broken]) as (model, served):
        with pytest.raises(ProviderError):
            await agent(model)
    assert len(served.asked) == 3
    state = await mirror(broker, TOPIC)
    assert state["runs"][0]["status"] == "failed"
    assert state["context"]["events"][0]["data"]["metadata"]["interrupted"] is True


async def test_refused_request_is_the_runs_error(publisher: Publisher, broker: RedisBroker) -> None:
    async def agent(model: OpenAIModel) -> None:
        async with publisher.run(TOPIC, agent="a") as run:
            await model.respond(run, [])

    async with provider(401) as (model, _):
        with pytest.raises(APIStatusError):
            await agent(model)
    assert "401" in (await mirror(broker, TOPIC))["runs"][0]["error"]


@pytest.mark.parametrize("response", [HANG, [chunk({"content": "half an"}), HANG]], ids=["silent", "in mid-stream"])
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
    "path", [pytest.param(item.values[1], id=item.id, marks=item.marks) for item in recordings() if "chat" in item.id]
)
async def test_recorded_stream_over_http_is_what_was_recorded(publisher: Publisher, path: Path) -> None:
    async with provider(lines(path)) as (model, _), publisher.run(TOPIC, agent="a") as run:
        message = await model.respond(run, [])
    (turn,) = read("openai-chat", path)
    assert (message.text, message.thinking or "") == (turn.text, turn.thinking)
    made = [(call.id, call.name, json.loads(call.arguments)) for call in message.tool_calls or ()]
    assert made == turn.calls


def test_request_messages_have_the_form_of_chat_completions() -> None:
    parts = (
        ContentPart.of_text("look"),
        ContentPart.of_image_url("https://example.org/a.png"),
        ContentPart(type="image", data="QUJD", media_type="image/jpeg"),
    )
    context = Context.new(
        system_prompt="Be brief",
        messages=[
            Message.user(parts),
            Message.assistant(None, thinking="hm", tool_calls=(ToolCall(id="c1", name="t", arguments="{}"),)),
            Message.tool("c1", {"x": 1}),
            Message.assistant(None),
            Message(role="reviewer", content="fine"),
        ],
    )
    system, user, asks, result, empty, other = request_messages(context)
    assert system == {"role": "system", "content": "Be brief"}
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "image_url"]
    assert user["content"][2]["image_url"]["url"] == "data:image/jpeg;base64,QUJD"
    assert asks == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
    }
    assert result == {"role": "tool", "tool_call_id": "c1", "content": '{"x":1}'}
    assert empty == {"role": "assistant", "content": ""}
    assert other == {"role": "user", "content": "fine"}


def test_request_tools() -> None:
    (described,) = request_tools([CALCULATE])
    assert described["function"]["parameters"]["required"] == ["expression"]

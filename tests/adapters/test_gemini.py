import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import types
from google.genai.client import AsyncClient

from gateway.adapters.consuming import consume
from gateway.adapters.gemini import Gemini
from gateway.errors import ProviderError
from tests.adapters.sink import RecordingSink
from tests.agent.provider import Provider

SIGNATURE = base64.b64encode(b"sig").decode()


def chunk(*parts: Mapping[str, Any], finish: str = "", **rest: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    if finish:
        candidate["finishReason"] = finish
    return {"responseId": "r1", "modelVersion": "gemini", "candidates": [candidate | rest.pop("candidate", {})], **rest}


@asynccontextmanager
async def client_of(server: Provider) -> AsyncIterator[AsyncClient]:
    # On one HTTP library, whichever others are installed.
    async with httpx.AsyncClient() as http:
        options = types.HttpOptions(
            base_url=server.url, httpx_async_client=http, retry_options=types.HttpRetryOptions(attempts=1)
        )
        async with genai.Client(api_key="k", http_options=options).aio as client:
            yield client


async def through_sdk(*chunks: Mapping[str, Any]) -> RecordingSink:
    """Take the chunks the way of the real SDK, over HTTP."""
    sink = RecordingSink()
    async with Provider(list(chunks)) as server, client_of(server) as client:
        await consume(sink, client.models.generate_content_stream(model="m", contents="Go on."), adapter=None)
    return sink


async def feed(*chunks: Mapping[str, Any]) -> RecordingSink:
    """Take them as they are, as of a recording."""
    sink = RecordingSink()
    adapter = Gemini(sink)
    for one in chunks:
        await adapter.feed(one)
    await adapter.finish()
    return sink


@pytest.fixture(params=[through_sdk, feed], ids=["sdk", "raw"])
def read(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_text_thinking_calls_and_usage(read: Any) -> None:
    usage = {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 17,
    }
    sink = await read(
        chunk({"text": "hm ", "thought": True}, usageMetadata={"promptTokenCount": 10, "totalTokenCount": 10}),
        chunk({"text": "Let "}, {"text": "me."}),
        chunk({"functionCall": {"id": "f1", "name": "look", "args": {"at": [1, 2]}}, "thoughtSignature": SIGNATURE}),
        chunk(finish="STOP", usageMetadata=usage),
    )
    ((message, text, thinking, arguments),) = sink.messages
    assert (message.text, message.thinking) == (text, thinking) == ("Let me.", "hm ")
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls or ()] == [
        ("f1", "look", '{"at":[1,2]}')
    ]
    assert arguments == ['{"at":[1,2]}']
    assert message.metadata == {"model": "gemini", "finish_reason": "STOP"}
    assert message.reasoning_details == [{"type": "thought_signature", "data": SIGNATURE}]
    counters = sink.usages["r1"]
    assert (counters.input_tokens, counters.output_tokens, counters.total_tokens) == (10, 7, 17)
    assert counters.cache_read_input_tokens == 4
    assert sink.ran == sink.results == []


async def test_code_that_the_provider_runs_has_its_result(read: Any) -> None:
    sink = await read(
        chunk({"executableCode": {"id": "e1", "language": "PYTHON", "code": "print(1)"}}),
        chunk({"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}}),
        chunk({"text": "It failed."}, finish="STOP"),
    )
    assert [(call, name, server) for call, name, _, server in sink.ran] == [("e1", "code_execution", True)]
    assert sink.results == [("e1", "code_execution", "no", True)]


async def test_calls_without_ids_are_told_apart(read: Any) -> None:
    call = {"functionCall": {"name": "look", "args": {}}}
    sink = await read(chunk(call, call, finish="STOP"))
    first, second = sink.last()["tool_calls"]
    assert first["id"]
    assert first["id"] != second["id"]


async def test_sources_and_unknown_parts_are_kept(read: Any) -> None:
    grounding = {"webSearchQueries": ["q"]}
    picture = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"png!").decode()}}
    sink = await read(chunk({"text": "x"}, picture, finish="STOP", candidate={"groundingMetadata": grounding}))
    metadata = sink.last()["metadata"]
    assert list(metadata["grounding_metadata"].values()) == [["q"]]
    assert metadata["items"] == [{"inline_data": {"mime_type": "image/png", "base64_length": 8}}]


async def test_answer_that_is_held_back_is_a_refusal(read: Any) -> None:
    sink = await read(chunk({"text": "I"}, finish="SAFETY", candidate={"finishMessage": "unsafe"}))
    # The SDK leaves the message out.
    assert sink.last()["metadata"]["refusal"] in {"unsafe", "SAFETY"}


async def test_question_that_is_blocked_is_a_refusal(read: Any) -> None:
    sink = await read({"responseId": "r1", "promptFeedback": {"blockReason": "BLOCKLIST"}})
    assert sink.last()["metadata"] == {"finish_reason": "BLOCKLIST", "refusal": "BLOCKLIST"}


async def test_functions_that_the_sdk_runs_have_their_results() -> None:
    ran: list[int] = []

    def look(at: int) -> str:
        """Look somewhere."""
        ran.append(at)
        return "seen"

    sink = RecordingSink()
    call = {"functionCall": {"id": "f1", "name": "look", "args": {"at": 3}}}
    answer = chunk({"text": "I have seen it."}, finish="STOP") | {"responseId": "r2"}
    async with Provider([chunk(call, finish="STOP")], [answer]) as server, client_of(server) as client:
        stream = client.models.generate_content_stream(
            model="m", contents="Look.", config=types.GenerateContentConfig(tools=[look])
        )
        await consume(sink, stream, adapter=None)
    assert ran == [3]
    assert [message.text for message, *_ in sink.messages] == ["", "I have seen it."]
    assert [(one, name, error) for one, name, _, error in sink.results] == [("f1", "look", False)]


async def test_error_names_its_kind() -> None:
    with pytest.raises(ProviderError, match="UNAVAILABLE: busy"):
        await feed({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})


async def test_stream_without_finish_reason_is_incomplete(read: Any) -> None:
    with pytest.raises(ProviderError, match="middle of a response"):
        await read(chunk({"text": "half"}))

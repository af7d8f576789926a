"""Every recorded stream through its provider's real SDK over HTTP: the run has what the SDK itself accumulates."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import APIError, AsyncOpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState

from gateway.adapters.consuming import consume
from tests.adapters.sink import RecordingSink
from tests.agent.provider import Provider
from tests.recordings import fails, lines, recordings

PROMPT: Any = [{"role": "user", "content": "Go on."}]
Told = tuple[str, list[tuple[str, str, Any]], tuple[int, int]]
"""Text, calls with their arguments parsed, tokens in and out."""


def of(provider: str) -> list[Any]:
    return [one for one in recordings() if one.values[0] in {provider, ""}]


def told(sink: RecordingSink) -> list[Told]:
    usages = list(sink.usages.values())
    assert len(usages) == len(sink.messages)
    return [
        (
            message.text,
            [(call.id or "", call.name or "", json.loads(call.arguments)) for call in message.tool_calls or ()],
            (usage.input_tokens, usage.output_tokens),
        )
        for (message, *_), usage in zip(sink.messages, usages, strict=True)
    ]


def responses(path: Path, start: str) -> list[list[dict[str, Any]]]:
    """Cut a recording into its responses; one that its provider began again is left out, as SDKs know of none."""
    cut: list[list[dict[str, Any]]] = []
    for event in lines(path):
        if event["type"] == start:
            if cut and not cut[-1][-1]["type"].endswith(("_stop", ".completed")):
                cut.pop()
            cut.append([])
        if cut:
            cut[-1].append(event)
    return cut


@pytest.mark.streams
@pytest.mark.parametrize(("_provider", "path"), of("anthropic"))
async def test_anthropic_accumulates_the_same(_provider: str, path: Path) -> None:
    sink, cut = RecordingSink(), responses(path, "message_start")
    async with (
        Provider(lines(path), *cut, named=True) as server,
        AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        await consume(sink, client.messages.create(model="m", max_tokens=9, messages=PROMPT, stream=True), adapter=None)
        expected: list[Told] = []
        for _ in cut:
            # The beta's accumulator: the other knows no tools of MCP servers.
            async with client.beta.messages.stream(model="m", max_tokens=9, messages=PROMPT) as stream:
                message = await stream.get_final_message()
            usage = message.usage
            cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
            calls = [
                (block.id, block.name, block.input)
                for block in message.content
                if block.type in {"tool_use", "server_tool_use", "mcp_tool_use"}
            ]
            text = "".join(block.text for block in message.content if block.type == "text")
            expected.append((text, calls, (usage.input_tokens + cached, usage.output_tokens)))
    assert told(sink) == expected


@pytest.mark.streams
@pytest.mark.parametrize(("_provider", "path"), of("anthropic"))
async def test_anthropic_helper_says_nothing_twice(_provider: str, path: Path) -> None:
    raw, helped = RecordingSink(), RecordingSink()
    response = responses(path, "message_start")[-1]
    async with (
        Provider(response, response, named=True) as server,
        AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        await consume(raw, client.messages.create(model="m", max_tokens=9, messages=PROMPT, stream=True), adapter=None)
        await consume(helped, client.messages.stream(model="m", max_tokens=9, messages=PROMPT), adapter=None)
    assert told(helped) == told(raw)
    assert helped.emitted == raw.emitted == []


@pytest.mark.streams
@pytest.mark.parametrize(("_provider", "path"), of("openai-chat"))
async def test_openai_chat_accumulates_the_same(_provider: str, path: Path) -> None:
    sink = RecordingSink()
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    async with (
        Provider(lines(path), done=True) as server,
        AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        stream = await client.chat.completions.create(model="m", messages=PROMPT, stream=True)

        async def both() -> AsyncIterator[Any]:
            async for chunk in stream:
                state.handle_chunk(chunk)
                yield chunk

        last = await consume(sink, both(), adapter=None)
    completion = state.current_completion_snapshot
    message = completion.choices[0].message
    calls = [
        (call.id, call.function.name, json.loads(call.function.arguments or "{}"))
        for call in message.tool_calls or ()
        if call.type == "function"
    ]
    assert completion.usage is not None
    tokens = (completion.usage.prompt_tokens, completion.usage.completion_tokens)
    assert told(sink) == [(message.content or "", calls, tokens)]
    assert last is not None
    assert last.metadata["finish_reason"] == completion.choices[0].finish_reason


@pytest.mark.streams
@pytest.mark.parametrize(("_provider", "path"), of("openai-responses"))
async def test_openai_responses_accumulates_the_same(_provider: str, path: Path) -> None:
    sink, cut = RecordingSink(), responses(path, "response.created")
    async with (
        Provider(lines(path), *cut, named=True) as server,
        AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        stream = client.responses.create(model="m", input="Go on.", stream=True)
        if fails(path):
            with pytest.raises(APIError):
                await consume(sink, stream, adapter=None)
            return
        await consume(sink, stream, adapter=None)
        expected: list[Told] = []
        for _ in cut:
            async with client.responses.stream(model="m", input="Go on.") as helper:
                final = await helper.get_final_response()
            assert final.usage is not None
            calls = [
                (item.call_id, item.name, json.loads(item.arguments))
                for item in final.output
                if item.type == "function_call"
            ]
            expected.append((final.output_text, calls, (final.usage.input_tokens, final.usage.output_tokens)))
    # The provider's own tools stand among the calls of the run.
    own = [
        (text, [call for call in calls if not _by_server(sink, call[0])], tokens) for text, calls, tokens in told(sink)
    ]
    assert own == expected


def _by_server(sink: RecordingSink, call_id: str) -> bool:
    return any(ran == call_id and server for ran, _, _, server in sink.ran)

"""LiteLLM's real package, over HTTP and recorded streams: the run has what LiteLLM itself accumulates of them."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

# Else it asks the network for its prices when it is imported, which takes seconds where there is none.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from gateway.adapters.consuming import consume
from tests.adapters.sink import RecordingSink
from tests.adapters.test_sdks import PROMPT, Told, of, responses, told
from tests.agent.provider import HANG, Provider
from tests.recordings import fails, lines
from tests.serving import eventually

litellm.suppress_debug_info = True

# What LiteLLM has pydantic warn about: its typed map with read-only keys, its looking at all attributes of a model, and
# its counting a response's usage in place.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* using the `ReadOnly` qualifier:UserWarning"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_(computed_)?fields' attribute:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]


def accumulated(chunks: list[Any]) -> Told:
    """Give what LiteLLM's own builder makes of the chunks, and a refusal's text, which it forgets."""
    built: Any = litellm.stream_chunk_builder(chunks)
    message = built.choices[0].message
    calls = [
        (call.id, call.function.name, json.loads(call.function.arguments or "{}")) for call in message.tool_calls or ()
    ]
    refusal = "".join(getattr(choice.delta, "refusal", None) or "" for chunk in chunks for choice in chunk.choices)
    return ((message.content or "") + refusal, calls, (built.usage.prompt_tokens, built.usage.completion_tokens))


async def noted(stream: Any, chunks: list[Any]) -> AsyncIterator[Any]:
    async for chunk in await stream:
        chunks.append(chunk)
        yield chunk


@pytest.mark.streams
@pytest.mark.parametrize(("_provider", "path"), of("openai-chat"))
async def test_chat_completions(_provider: str, path: Path) -> None:
    sink = RecordingSink()
    chunks: list[Any] = []
    async with Provider(lines(path), done=True) as server:
        stream = litellm.acompletion(
            model="openai/m",
            messages=PROMPT,
            stream=True,
            stream_options={"include_usage": True},
            api_base=server.url,
            api_key="k",
            max_retries=0,
        )
        await consume(sink, noted(stream, chunks), adapter=None)
    assert told(sink) == [accumulated(chunks)]


@pytest.mark.streams
@pytest.mark.parametrize(("_provider", "path"), of("anthropic"))
async def test_anthropic(_provider: str, path: Path) -> None:
    for response in responses(path, "message_start"):
        sink = RecordingSink()
        chunks: list[Any] = []
        async with Provider(response, named=True) as server:
            stream = litellm.acompletion(
                model="anthropic/claude-sonnet-4-5",
                messages=PROMPT,
                stream=True,
                stream_options={"include_usage": True},
                api_base=server.url,
                api_key="k",
                max_retries=0,
            )
            if not any(event["type"] == "message_delta" for event in response):
                # A response that came whole in its first event is more than LiteLLM reads.
                with pytest.raises(litellm.exceptions.MidStreamFallbackError, match="before a finish_reason"):
                    await consume(sink, noted(stream, chunks), adapter=None)
                continue
            await consume(sink, noted(stream, chunks), adapter=None)
        assert told(sink) == [accumulated(chunks)]


@pytest.mark.streams
@pytest.mark.parametrize(("_provider", "path"), of("openai-responses"))
async def test_responses(_provider: str, path: Path) -> None:
    for response in responses(path, "response.created"):
        sink = RecordingSink()
        events: list[Any] = []
        async with Provider(response, named=True) as server:
            stream = litellm.aresponses(
                model="openai/gpt-4.1", input="Go on.", stream=True, api_base=server.url, api_key="k", max_retries=0
            )
            if fails(path):
                with pytest.raises(litellm.exceptions.MidStreamFallbackError):
                    await consume(sink, noted(stream, events), adapter=None)
                return
            await consume(sink, noted(stream, events), adapter=None)
        final = events[-1].response
        calls = [
            (item.call_id, item.name, json.loads(item.arguments))
            for item in final.output
            if item.type == "function_call"
        ]
        [(text, all_calls, tokens)] = told(sink)
        by_provider = {ran for ran, _, _, server in sink.ran if server}
        own = [call for call in all_calls if call[0] not in by_provider]
        counted = (final.usage.input_tokens, final.usage.output_tokens)
        assert (text, own, tokens) == (final.output_text, calls, counted)


async def test_connection_is_closed_when_the_run_is_stopped() -> None:
    sink = RecordingSink()
    chunk = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "begun"}, "finish_reason": None}],
    }
    async with Provider([chunk, HANG]) as server:
        stream = litellm.acompletion(
            model="openai/m", messages=PROMPT, stream=True, api_base=server.url, api_key="k", max_retries=0
        )
        consuming = asyncio.create_task(consume(sink, stream, adapter=None))
        await eventually(lambda: sink.open_text)
        consuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consuming
        await asyncio.wait_for(server.left.wait(), 10)
    assert sink.open_text == "begun"

"""What is redacted is in none of the bytes that a reader gets: over every transport, in every form, now and later."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from gateway.broker.redis import RedisBroker
from gateway.types import Position, Topic
from tests.serving import PATIENCE, Gateway, append, serve
from tests.signing import API_KEY, SECRET, token

TOPIC = Topic("t")
LARGE = "hush" * 20_000
HASH = hashlib.sha256(LARGE.encode()).hexdigest()


def logged(kind: str, seq: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "run": "r", "seq": seq, "time": "2026-01-01T00:00:00.000000", "metadata": {}, **fields}


def hush(name: str) -> str:
    """Give JSON arguments that must not be seen."""
    return json.dumps({"x": f"hush-{name}"})


CALL = {"id": "c", "name": "search", "arguments": hush("call")}
EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("h", {"type": "agent_start", "run": "r", "agent": "a", "at": 1}),
    (
        "h",
        {
            "type": "context",
            "run": "r",
            "tool_calls": {
                "from": 0,
                "items": [{"id": "c", "name": "search", "arguments": hush("item"), "result": "hush-result"}],
            },
        },
    ),
    ("d", {"type": "agent_thinking", "run": "r", "message": "m", "text": "hush-think"}),
    ("d", {"type": "agent_delta", "run": "r", "message": "m", "text": "Hello"}),
    (
        "d",
        {
            "type": "tool_call_delta",
            "run": "r",
            "message": "m",
            "index": 0,
            "id": "c",
            "name": "search",
            "text": '{"x": "hu',
        },
    ),
    ("d", {"type": "tool_call_delta", "run": "r", "message": "m", "index": 0, "text": "sh-piece"}),
    ("d", {"type": "tool_call_delta", "run": "r", "message": "m", "index": 0, "text": '-2"}'}),
    (
        "e",
        logged(
            "assistant_message",
            0,
            message="m",
            content="Hello, world",
            thinking="hush-thinking",
            tool_calls=[CALL],
            reasoning_details=[{"text": "hush-details"}],
        ),
    ),
    ("h", logged("tool_call", 1, id="c", name="search", arguments=hush("tool-call"), message="m")),
    (
        "h",
        {
            "type": "approval_required",
            "run": "r",
            "tool_call_id": "c",
            "name": "search",
            "arguments": hush("asked"),
            "expires_at": 9,
        },
    ),
    (
        "h",
        {
            "type": "approval_decided",
            "run": "r",
            "tool_call_id": "c",
            "decision": "edit",
            "arguments": hush("edited"),
            "by": "ann",
        },
    ),
    ("h", {"type": "progress", "run": "r", "tool_call_id": "c", "text": "hush-progress"}),
    ("h", logged("tool_result", 2, tool_call_id="c", name="search", content="hush-content")),
    (
        "h",
        logged(
            "tool_result",
            3,
            tool_call_id="d",
            name="search",
            content=LARGE[:2000],
            blobs={"/content": {"hash": HASH, "bytes": len(LARGE)}},
        ),
    ),
    ("h", {"type": "notification", "run": "r", "name": "tool_done", "payload": {"deep": ["hush-payload"]}}),
    ("h", {"type": "log", "run": "r", "level": "error", "message": "hush-log", "fields": {"x": "hush-field"}}),
    (
        "h",
        {
            "type": "approval_required",
            "run": "r",
            "tool_call_id": "e",
            "name": "search",
            "arguments": hush("waits"),
            "expires_at": 9,
        },
    ),
    (
        "h",
        {
            "type": "message_queued",
            "id": "q",
            "content": f"who has the hash {HASH} has no business with it",
            "by": "ann",
        },
    ),
    ("d", {"type": "agent_thinking", "run": "r", "message": "n", "text": "hush-open"}),
    (
        "d",
        {
            "type": "tool_call_delta",
            "run": "r",
            "message": "n",
            "index": 0,
            "id": "f",
            "name": "search",
            "text": "hush-open",
        },
    ),
]

RULES = {
    "masked": {"drop": ["log"], "mask": ["arguments", "results", "thinking"]},
    "dropped": {"drop": ["tools", "logs", "agent_thinking", "notification"]},
    "calls": {
        "drop": [
            "tool_call",
            "tool_call_delta",
            "approval_required",
            "approval_decided",
            "tool_result",
            "progress",
            "logs",
            "agent_thinking",
            "notification",
        ]
    },
}

LENSES: list[Any] = [
    None,
    "summary",
    {"rate": 10},
    {"finished": True},
    {"types": ["chat"]},
    {"types": ["tools"], "rate": 1},
    {"types": ["chat", "tools", "runs", "usage", "logs"]},
]

WAYS = [
    "",
    "?messages=1",
    "/archive",
    f"/blobs/{HASH}",
    "/export",
    "/events?poll=1&from=start",
    "/events?poll=1&mirror=1",
    "/stream",
    "/stream?offset=-1&live=long-poll",
]
STREAMS = [
    "/events?from=start",
    "/events?mirror=1",
    "/events?from=start&format=ndjson&rate=1",
    "/events?from=start&types=tools,chat",
    "/events?mirror=1&finished=1",
    "/events?dialect=ag-ui",
    "/events?dialect=ai-sdk",
    "/events?dialect=openai-responses",
    "/events?dialect=ag-ui&from=start",
    "/events?dialect=ai-sdk&from=start",
    "/events?dialect=openai-responses&from=start",
    "/stream?offset=-1&live=sse",
]

WORDS = ("hush", "sh-piece")


@pytest_asyncio.fixture
async def gateway(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix, token_secrets=SECRET, api_keys=API_KEY) as running:
        yield running


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


def reader(rules: str) -> str:
    allow = ["read", "history", "presence", "export", "send"]
    return token("ann", caps=[{"channels": [TOPIC], "allow": allow, "redact": RULES[rules]}])


async def write(broker: RedisBroker, *, first: int = 0, last: int = len(EVENTS)) -> Position:
    for kind, event in EVENTS[first:last]:
        position = await append(broker, TOPIC, event, kind=kind)
    return position


def readers(gateway: Gateway) -> int:
    return sum(topic.readers for topic in gateway.hub.topics)


def told(text: str) -> list[str]:
    """Give the places of what must not be there."""
    return [text[max(0, at - 80) : at + 20] for word in WORDS if (at := text.find(word)) >= 0]


@pytest.mark.parametrize("rules", RULES)
async def test_no_answer_holds_what_is_redacted(gateway: Gateway, broker: RedisBroker, rules: str) -> None:
    position = await write(broker)
    await broker.store_blobs(TOPIC, {HASH: LARGE.encode()}, run="", position=position)
    async with httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http:
        everything = (await http.get(f"/topics/{TOPIC}", headers={"x-api-key": API_KEY})).text
        assert told(everything)
        headers = {"authorization": f"Bearer {reader(rules)}"}
        for way in WAYS:
            answer = await http.get(f"/topics/{TOPIC}{way}", headers=headers)
            assert (way, told(answer.text)) == (way, [])


@pytest.mark.parametrize("rules", RULES)
async def test_no_stream_holds_what_is_redacted(gateway: Gateway, broker: RedisBroker, rules: str) -> None:
    await write(broker, last=7)
    texts: dict[str, list[str]] = {}

    async def read(http: httpx.AsyncClient, way: str) -> None:
        texts[way] = []
        headers = {"authorization": f"Bearer {reader(rules)}"}
        async with http.stream("GET", f"/topics/{TOPIC}{way}", headers=headers) as answer:
            async for piece in answer.aiter_text():
                texts[way].append(piece)

    async with httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http:
        reading = [asyncio.create_task(read(http, way)) for way in STREAMS]
        async with asyncio.timeout(PATIENCE):
            while len(texts) < len(STREAMS) or readers(gateway) < len(STREAMS):
                await asyncio.sleep(0.01)
        await write(broker, first=7)
        await append(broker, TOPIC, {"type": "agent_complete", "run": "r", "at": 2})
        async with asyncio.timeout(PATIENCE):
            while not all(_ended(way, "".join(pieces)) for way, pieces in texts.items()):
                await asyncio.sleep(0.01)
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    for way, pieces in texts.items():
        assert (way, told("".join(pieces))) == (way, [])


def _ended(way: str, text: str) -> bool:
    if "types=" in way:
        return "m" in text
    return any(word in text for word in ("agent_complete", "RUN_FINISHED", "[DONE]", "response.completed"))


@pytest.mark.parametrize("rules", RULES)
async def test_no_frame_holds_what_is_redacted(gateway: Gateway, broker: RedisBroker, rules: str) -> None:
    await write(broker, last=7)
    ways = [
        {"channel": TOPIC, "data": {"mirror": mirror, "lens": lens}, **start}
        for lens in LENSES
        for mirror in (True, False)
        for start in ({}, {"recover": True})
    ]
    async with contextlib.AsyncExitStack() as stack:
        sockets = []
        for way in ways:
            socket = await stack.enter_async_context(connect(gateway.url, compression=None, max_size=None))
            lines = [{"id": 1, "connect": {"token": reader(rules)}}, {"id": 2, "subscribe": way}]
            await socket.send("\n".join(map(json.dumps, lines)))
            sockets.append(socket)
        async with asyncio.timeout(PATIENCE):
            while readers(gateway) < len(ways):
                await asyncio.sleep(0.01)
        await write(broker, first=7)
        await append(broker, TOPIC, {"type": "agent_complete", "run": "r", "at": 2, "result": "the end"})
        for way, socket in zip(ways, sockets, strict=True):
            for number, limit, reverse in ((3, 1000, False), (4, 1000, True)):
                body = {"channel": TOPIC, "limit": limit, "reverse": reverse}
                await socket.send(json.dumps({"id": number, "history": body}))
            text = ""
            until = '"id":4'
            while until not in text or "the end" not in text:
                text += str(await asyncio.wait_for(socket.recv(), PATIENCE))
            assert (way, told(text)) == (way, [])

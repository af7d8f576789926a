"""Fuzzing events: what an agent says is refused or stored, and what is stored every reader can take, in every form."""

import asyncio
import contextlib
import json
from secrets import token_hex
from typing import Any

import msgspec
from hypothesis import strategies as st

from gateway.broker.redis import RedisBroker
from gateway.codec import decode_event, encode_event
from gateway.context.messages import Message, ToolCall
from gateway.dialects import DIALECTS
from gateway.errors import CommandError, EventRefusedError
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import START, Publication, Topic
from tests.fuzz.ground import Ground, fuzz
from tests.fuzz.hostile import JSON, KEYS, MUTATIONS, NUMBERS, TEXTS, dumps, mutated
from tests.fuzz.wire import TEXT, frame, peer

_EVENTS = st.fixed_dictionaries({}, optional={"type": st.sampled_from(["x", "note.a", "log"]) | JSON}).flatmap(
    lambda head: st.dictionaries(KEYS, JSON, max_size=4).map(lambda rest: {**rest, **head})
)
_RAW = st.one_of(
    st.builds(mutated, _EVENTS.map(dumps), MUTATIONS),
    st.builds(lambda deep: b'{"a":' * deep + b"0" + b"}" * deep, st.integers(1, 5000)),
    st.builds(lambda digits: b'{"a":' + b"9" * digits + b"}", st.integers(1, 6000)),
    st.just(b'{"a":1,"a":2}'),
    st.just(b'{"__proto__":{}}'),
    JSON.map(dumps),
    st.binary(max_size=40),
)


def test_codec() -> None:
    def throw(given: tuple[bytes, Any]) -> None:
        data, value = given
        for event in (value, _decoded(data)):
            with contextlib.suppress(EventRefusedError):
                encoded = encode_event(event)
                assert b"\n" not in encoded
                assert encode_event(decode_event(encoded)) == encoded
                assert encode_event(json.loads(encoded)) == encoded

    fuzz("codec", st.tuples(_RAW, _EVENTS), throw, examples=300)


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        return decode_event(data)
    except EventRefusedError:
        return {}


_LONG = st.builds(
    lambda text, count: text * count,
    st.sampled_from(["x", "é", "🚀", "e\u0301", "\n", "\\", "\x00"]),
    st.integers(1, 90_000),
)
_WORDS = TEXTS | TEXTS | _LONG
_CALLS = st.lists(
    st.builds(lambda name, arguments: ToolCall(id=name, name=name, arguments=arguments), TEXTS, _WORDS | JSON),
    max_size=2,
)
_STEPS = st.one_of(
    st.tuples(st.just("emit"), _EVENTS),
    st.tuples(st.just("delta"), _WORDS),
    st.tuples(st.just("thinking"), _WORDS),
    st.tuples(st.just("tool_call_delta"), st.integers(-1, 3) | NUMBERS, _WORDS, TEXTS),
    st.tuples(st.just("assistant"), _WORDS | JSON, _CALLS),
    st.tuples(st.just("user"), _WORDS | JSON),
    st.tuples(st.just("tool_call"), TEXTS, TEXTS, _WORDS | st.dictionaries(KEYS, JSON, max_size=2)),
    st.tuples(st.just("tool_result"), TEXTS, TEXTS, _WORDS | JSON, st.dictionaries(KEYS, JSON, max_size=2)),
    st.tuples(
        st.just("usage"),
        st.dictionaries(st.sampled_from(["requests", "input_tokens", "x"]), NUMBERS | JSON, max_size=3),
    ),
)
_RUNS = st.tuples(st.lists(_STEPS, max_size=8), st.none() | TEXTS, JSON, TEXTS)

REFUSALS = (ValueError, TypeError, CommandError, OverflowError)
"""With which the agents' SDK refuses values; all else is a fault."""


async def _step(run: Run, step: tuple[Any, ...]) -> None:
    match step:
        case ("emit", event):
            await run.emit(event)
        case ("delta", text):
            await run.delta(text)
        case ("thinking", text):
            await run.thinking(text)
        case ("tool_call_delta", index, text, name):
            await run.tool_call_delta(index=index, text=text, id=name, name=name)
        case ("assistant", content, calls):
            await run.add_message(Message.assistant(content, tool_calls=calls))
        case ("user", content):
            await run.add_message(Message.user(content))
        case ("tool_call", id_, name, arguments):
            await run.tool_call(id_, name, arguments)
        case ("tool_result", id_, name, content, metadata):
            await run.tool_result(id_, name, content, metadata=metadata)
        case ("usage", counters):
            await run.usage(counters)


def test_published(open_ground: Ground) -> None:
    settings = open_ground.gateway.hub.settings

    async def throw(steps: list[tuple[Any, ...]], agent: str, result: Any, error: str | None) -> None:
        topic = Topic(f"t{token_hex(5)}")
        broker = RedisBroker(settings.redis_url, key_prefix=settings.key_prefix)
        try:
            with contextlib.suppress(*REFUSALS):
                async with (
                    Publisher(broker=broker, flush_interval=0) as publisher,
                    publisher.run(topic, agent=agent) as run,
                ):
                    for step in steps:
                        with contextlib.suppress(*REFUSALS):
                            await _step(run, step)
                    with contextlib.suppress(*REFUSALS):
                        await (run.complete(result) if error is None else run.fail(error))
            history = await broker.read(topic, START, limit=10_000)
        finally:
            await broker.aclose()
        mirror = Mirror(topic, epoch=history.epoch)
        for stored in history.events:
            event = decode_event(stored.data)
            assert encode_event(event) == stored.data
            # What an end replaces is gone: the next event stands for it.
            mirror.apply(Publication(offset=stored.offset, data=event, first=mirror.offset + 1))
        runs = mirror.snapshot()["mirror"]["runs"]
        assert [found["status"] for found in runs] in ([], ["completed"], ["failed"])
        await _read_over_websocket(open_ground.port, topic, top=history.top)
        for query in (
            "from=start&format=ndjson&types=chat",
            "poll=1&from=start&wait=0",
            *(f"from=start&dialect={name}" for name in DIALECTS),
        ):
            head, body = await _get(
                open_ground.port, f"/topics/{topic}/events?{query}", until=str(history.top) if "ndjson" in query else ""
            )
            assert head.startswith(b"HTTP/1.1 2"), head
            body.decode()
        head, body = await _get(open_ground.port, f"/topics/{topic}?messages=1", until="")
        assert head.startswith(b"HTTP/1.1 200"), head
        assert msgspec.json.decode(body)["offset"] == history.top

    fuzz("published", _RUNS, lambda given: open_ground.run(throw(given[0], given[3], given[2], given[1])), examples=40)


async def _read_over_websocket(port: int, topic: str, *, top: int) -> None:
    async with peer(port) as one:
        await one.send(frame(TEXT, b'{"id":1,"connect":{}}'))
        request = {"channel": topic, "recover": True}
        await one.send(frame(TEXT, json.dumps({"id": 2, "subscribe": request}).encode()))
        offset = 0
        while offset < top:
            found = await one.frame()
            assert found is not None
            for line in map(msgspec.json.decode, found[1].split(b"\n")):
                publications = (
                    [line["push"]["pub"]] if "push" in line else line.get("subscribe", {}).get("publications", [])
                )
                for publication in publications:
                    first = int(publication.get("tags", {}).get("from", publication["offset"]))
                    assert first == offset + 1
                    offset = publication["offset"]


async def _get(port: int, target: str, *, until: str) -> tuple[bytes, bytes]:
    """Ask once; a stream that does not end by itself is read until a piece of text."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if until:
            return head, await reader.readuntil(b"\n")
        length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        return head, await (reader.readexactly(int(length[0][15:])) if length else reader.read())
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

"""Callers who mean harm: each is answered as PROTOCOL.md says or cut off, and nobody else's reading is disturbed."""

import asyncio
import contextlib
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.streaming.protocol import StreamingProtocol
from tests.fuzz.wire import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Peer, frame, packed, peer
from tests.serving import PATIENCE, Gateway, Plain, append, eventually, serve

CONNECT = frame(TEXT, b'{"id":1,"connect":{}}')
MEGABYTE = 1024 * 1024


class Witness:
    """A reader of the same gateway, who gets everything in order whatever others do."""

    def __init__(self, gateway: Gateway, broker: RedisBroker, plain: Plain) -> None:
        self.gateway = gateway
        self.port = gateway.port
        self._broker = broker
        self._plain = plain
        self._number = 0

    async def reads_on(self) -> None:
        """Have something published, and see it come."""
        for _ in range(20):
            self._number += 1
            await append(self._broker, "seen", {"n": self._number})
            assert (await self._plain.pub())["data"] == {"n": self._number}


@pytest_asyncio.fixture
async def witness(redis_url: str, key_prefix: str, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Witness]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    async with (
        serve(redis_url, key_prefix, connect_timeout=1.0, linger=0.0, drain=0) as gateway,
        gateway.plain() as plain,
    ):
        await append(broker, "seen", {"n": 0})
        await plain.ask("subscribe", {"channel": "seen"})
        found = Witness(gateway, broker, plain)
        await found.reads_on()
        yield found
        await found.reads_on()
        # Of all the others nothing is left.
        await eventually(lambda: len(gateway.server.server_state.connections) == 1)
        await eventually(lambda: not gateway.server.server_state.tasks)
        await eventually(lambda: len(gateway.hub.readers) == 1)
    await broker.aclose()
    assert not [record.getMessage() for record in caplog.records if record.exc_info]


async def end(one: Peer) -> int | None:
    """Read to the end of the stream; give the code of the close frame."""
    frames = await asyncio.wait_for(one.rest(), PATIENCE)
    closes = [payload for opcode, payload, _ in frames if opcode == CLOSE]
    return int.from_bytes(closes[0][:2]) if closes else None


async def test_heads_that_trickle_are_cut(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamingProtocol, "head_timeout", 0.5)

    async def trickle(sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", witness.port)
        rest = asyncio.create_task(reader.read())
        with contextlib.suppress(ConnectionError):
            writer.write(sent)
            while not rest.done():
                writer.write(b"x")
                await asyncio.sleep(0.02)
        writer.close()
        try:
            return await rest
        except ConnectionError:
            return b""

    heads = [
        b"",
        b"GET /connection/websocket HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"GET /",
        b"\r\n\r\n",
        b"POST /api/info HTTP/1.1\r\n",
    ]
    answers = asyncio.gather(*(trickle(head) for head in heads * 20))
    await witness.reads_on()
    for answer in await answers:
        assert not answer or answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * MEGABYTE + b"\r\n\r\n",
        b"GET /?" + b"a=b&" * 250_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /connection/websocket?" + b"x" * MEGABYTE + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"G" * MEGABYTE,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["headers", "header", "query", "websocket query", "method", "TLS", "HTTP/2"],
)
async def test_head_bombs_are_refused(witness: Witness, head: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", witness.port)
    with contextlib.suppress(ConnectionError):
        writer.write(head)
        await writer.drain()
    with contextlib.suppress(ConnectionError):
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200 "))
        assert b"HTTP/1.1 5" not in answer
    writer.close()


SMUGGLED = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        [b"Content-Length: 5", b"Content-Length: 6"],
        [b"Content-Length: 5, 6"],
        [b"Content-Length: +5"],
        [b"Content-Length: 0x5"],
        [b"Content-Length: -5"],
        [b"Transfer-Encoding: xchunked"],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"],
        [b"Transfer-Encoding : chunked"],
        [b" Transfer-Encoding: chunked"],
        [b"Host: evil.example"],
        [b"X: a\rContent-Length: 5"],
        [b"X: \x00"],
    ],
)
async def test_requests_of_two_lengths_are_one_refusal(witness: Witness, headers: list[bytes]) -> None:
    """What one server takes for a body must not be the next request for another (RFC 9112, 11.2)."""
    lines = [b"POST /api/nothing HTTP/1.1", b"Host: localhost", *headers]
    reader, writer = await asyncio.open_connection("127.0.0.1", witness.port)
    writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + b"0\r\n\r\n" + SMUGGLED)
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
    assert b"HTTP/1.1 200" not in answer
    writer.close()


async def test_chunked_wins_over_a_length_and_nothing_is_answered_twice(witness: Witness) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", witness.port)
    head = b"POST /api/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n"
    writer.write(head + b"Connection: close\r\n\r\n0\r\n\r\n" + SMUGGLED)
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    assert answer.count(b"HTTP/1.1") == 1
    writer.close()


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("evil.example", ""),
        ("127.0.0.1.evil.example", ""),
        ("localhost.evil.example", ""),
        ("localhost@evil.example", ""),
        ("", ""),
        ("[::1", ""),
        ("localhost", "http://evil.example"),
        ("localhost", "http://localhost.evil.example"),
        ("localhost", "http://localhost@evil.example"),
        ("localhost", "null"),
        ("localhost", "file://"),
        ("localhost", "http://[::1"),
        ("localhost", "http://localhost:81"),
    ],
)
async def test_other_hosts_and_origins_are_refused(witness: Witness, host: str, origin: str) -> None:
    extra = f"Origin: {origin}\r\n" if origin else ""
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    for path, more in (("/healthz", ""), ("/connection/websocket", upgrade)):
        reader, writer = await asyncio.open_connection("127.0.0.1", witness.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{extra}{more}\r\n".encode())
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        assert answer.startswith(b"HTTP/1.1 403 "), answer
        writer.close()


async def test_connections_that_never_say_connect_are_closed(witness: Witness) -> None:
    async with contextlib.AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(peer(witness.port)) for _ in range(100)]
        for one in peers[::2]:
            await one.send(frame(PING, b"still here"))
        await witness.reads_on()
        assert set(await asyncio.gather(*(end(one) for one in peers))) == {3502}


async def test_ping_flood_is_answered_or_ended(witness: Witness) -> None:
    """Pings cost as much as commands: who sends more than those may be is closed."""
    async with peer(witness.port) as one:
        await one.send(CONNECT)
        reading = asyncio.create_task(one.rest())
        for _ in range(50):
            await one.send(frame(PING, b"x" * 125) * 2000)
            if reading.done():
                break
        await witness.reads_on()
        frames = await asyncio.wait_for(reading, PATIENCE)
        assert {opcode for opcode, _, _ in frames} == {TEXT, PONG, CLOSE}
        assert int.from_bytes(frames[-1][1][:2]) == 3501


async def test_ping_flood_of_who_does_not_read_holds_no_memory(witness: Witness) -> None:
    before = psutil.Process().memory_info().rss
    async with peer(witness.port) as one:
        one.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads, too
        sending = asyncio.create_task(one.send(frame(PING, b"x" * 125) * 400_000))
        for _ in range(10):
            await witness.reads_on()
        assert psutil.Process().memory_info().rss - before < 200 * MEGABYTE  # most of it the sender's own
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending


async def test_tiny_frames_by_the_million_end_the_connection(witness: Witness) -> None:
    tinies = {frame(TEXT, b"{}"): 3501, frame(TEXT): 3501, frame(TEXT, b"\n"): 3501, frame(PONG): 3501}
    for tiny, code in {**tinies, frame(CONTINUATION, fin=False): 1009}.items():
        async with peer(witness.port) as one:
            reading = asyncio.create_task(end(one))
            await one.send(CONNECT + (b"" if tiny in tinies else frame(TEXT, fin=False)))
            sending = asyncio.create_task(one.send(tiny * 1_000_000))
            await witness.reads_on()
            assert await reading == code
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending


async def test_command_flood_is_answered_with_an_error_that_passes(witness: Witness) -> None:
    async with peer(witness.port) as one:
        lines = [b'{"id":%d,"ping":{}}' % number for number in range(2, 10_002)]
        await one.send(
            CONNECT + b"".join(frame(TEXT, b"\n".join(lines[at : at + 500])) for at in range(0, 10_000, 500))
        )
        replies: list[dict[str, Any]] = []
        while len(replies) < 10_001:
            found = await asyncio.wait_for(one.frame(), PATIENCE)
            assert found is not None
            replies += map(json.loads, found[1].decode().split("\n"))
        refused = [reply["error"] for reply in replies if "error" in reply]
        assert len(refused) > 5000
        assert {(error["code"], error["temporary"]) for error in refused} == {(111, True)}


async def test_subscription_flood_stops_at_the_limit(witness: Witness) -> None:
    async with peer(witness.port) as one:
        lines = [
            json.dumps({"id": number, "subscribe": {"channel": f"flood{number}"}}).encode() for number in range(2, 1302)
        ]
        await one.send(CONNECT + frame(TEXT, b"\n".join(lines)))
        replies: list[dict[str, Any]] = []
        while len(replies) < 1301:
            found = await asyncio.wait_for(one.frame(), PATIENCE)
            assert found is not None
            replies += [line for line in map(json.loads, found[1].decode().split("\n")) if "id" in line]
            if found[1] == b"{}":
                await one.send(frame(TEXT, b"{}"))
        errors = [reply["error"]["code"] for reply in replies if "error" in reply]
        assert errors == [106] * 300
        await witness.reads_on()
    await eventually(lambda: set(witness.gateway.hub._topics) == {"seen"})


async def test_subscribing_and_leaving_over_and_over_leaves_nothing(witness: Witness) -> None:
    async with peer(witness.port) as one:
        lines = []
        for number in range(1, 1001):
            lines.append(json.dumps({"id": 2 * number, "subscribe": {"channel": f"flood{number % 7}"}}).encode())
            lines.append(json.dumps({"id": 2 * number + 1, "unsubscribe": {"channel": f"flood{number % 7}"}}).encode())
        await one.send(CONNECT + b"".join(frame(TEXT, b"\n".join(lines[at : at + 100])) for at in range(0, 2000, 100)))
        count = 0
        while count < 2001:
            found = await asyncio.wait_for(one.frame(), PATIENCE)
            assert found is not None
            count += sum('"id"' in line for line in found[1].decode().split("\n"))
            if found[1] == b"{}":
                await one.send(frame(TEXT, b"{}"))
    await eventually(lambda: set(witness.gateway.hub._topics) == {"seen"})


async def test_unfinished_fragments_are_held_within_the_limit(witness: Witness) -> None:
    before = psutil.Process().memory_info().rss
    async with contextlib.AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(peer(witness.port)) for _ in range(30)]
        for one in peers:
            await one.send(
                CONNECT + frame(TEXT, b"x" * 60_000, fin=False) + frame(CONTINUATION, b"x" * 60_000, fin=False)
            )
            await one.send(frame(PING))
            while (found := await asyncio.wait_for(one.frame(), PATIENCE)) is not None and found[0] != PONG:
                continue
        assert psutil.Process().memory_info().rss - before < 100 * MEGABYTE
        await witness.reads_on()
        for one in peers[:10]:
            await one.send(frame(CONTINUATION, b"x" * 60_000, fin=False))
            assert await end(one) == 1009


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
async def test_compression_bombs_stop_at_the_limit(witness: Witness, opcode: int) -> None:
    bomb = packed(b"[" * 20 * MEGABYTE, level=9)
    assert len(bomb) < 128 * 1024
    before = psutil.Process().memory_info().rss
    for _ in range(5):
        async with peer(witness.port, extensions="permessage-deflate") as one:
            await one.send(frame(opcode, bomb, bits=0x40))
            assert await end(one) == 1009
    assert psutil.Process().memory_info().rss - before < 50 * MEGABYTE
    await witness.reads_on()


async def test_body_that_says_it_is_compressed_is_no_bomb(witness: Witness) -> None:
    body = zlib.compress(b"{" * 10 * MEGABYTE)
    reader, writer = await asyncio.open_connection("127.0.0.1", witness.port)
    head = b"POST /api/info HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: deflate\r\nConnection: close\r\n"
    writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert (await asyncio.wait_for(reader.read(), PATIENCE)).startswith(b"HTTP/1.1 400 ")
    writer.close()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"id":2,"publish":{"channel":"x","data":' + b"[" * 60_000 + b"]" * 60_000 + b"}}", 3501),
        (b"[" * 120_000, 3501),
        (b'{"id":' + b"9" * 100_000 + b',"ping":{}}', 3501),
        (b'{"id":2,"ping":{}}\x00', 3501),
        (b'{"id":2,"ping":{},"x":"\xed\xa0\x80"}', 1007),
        (b'{"id":2,"ping":{}} ' * 5000, 3501),
        (b'{"id":NaN,"ping":{}}', 3501),
    ],
    ids=["deep", "deeper", "huge id", "NUL", "surrogate", "no newlines", "NaN"],
)
async def test_json_bombs_close_with_their_code(witness: Witness, text: bytes, code: int) -> None:
    async with peer(witness.port) as one:
        await one.send(CONNECT + frame(TEXT, text))
        assert await end(one) == code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"[" * 60 + b"]" * 60, 107),
        (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", 107),
        (b'{"a":' + b"9" * 5000 + b"}", 107),
        (b'{"a":9007199254740992}', 107),
        (b'{"a":1e999}', 107),
        (b'{"__proto__":1}', 107),
        (b'{"a":1,"a":2}', 107),
        (b'{"type":"agent_complete"}', 103),
        (b'{"type":"\\u0000"}', 107),
        (b'{"text":"' + b"x" * 70_000 + b'"}', 106),
        (b'{"text":"\\ud800\\u0000"}', 0),
    ],
)
async def test_hostile_publications_are_answered(witness: Witness, data: bytes, code: int) -> None:
    async with peer(witness.port) as one:
        await one.send(CONNECT + frame(TEXT, b'{"id":2,"publish":{"channel":"x","data":' + data + b"}}"))
        await asyncio.wait_for(one.frame(), PATIENCE)
        found = await asyncio.wait_for(one.frame(), PATIENCE)
        assert found is not None
        reply = json.loads(found[1])
        assert reply["id"] == 2
        assert reply.get("error", {"code": 0})["code"] == code

"""Server-sent events and lines of JSON, over real sockets."""

import asyncio
import contextlib
import json
import re
import socket
from pathlib import Path
from typing import Self

import httpx
import pytest
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.mirror import Mirror
from gateway.types import START, Publication, Topic, parse_position
from tests.servers import RedisServer
from tests.serving import PATIENCE, Gateway, append, eventually, serve
from tests.streaming.eventsource import Received, listen


def numbers(events: list[Received]) -> list[int]:
    return [event.data["n"] for event in events]


async def forget(redis: Redis, broker: RedisBroker, topic: str) -> None:
    """Lose a topic's history, as a store without persistence does."""
    await redis.delete(*[key async for key in redis.scan_iter(match=f"{broker.channel(Topic(topic))}*")])


async def trim(broker: RedisBroker, topic: str, http: httpx.AsyncClient) -> None:
    """Fold the whole history of a topic into its snapshot."""
    snapshot = (await http.get(f"/topics/{topic}")).text
    history = await broker.read(Topic(topic), START, limit=0)
    position = parse_position(f"{history.epoch}:{history.top}")
    await broker.trim(Topic(topic), snapshot.encode(), position=position, size=history.size)


# where it begins


async def test_stream_begins_now_and_tells_its_position(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    before = await append(broker, "t", {"type": "x", "n": 1})
    async with listen(http, "/topics/t/events") as stream:
        data = {"type": "x", "n": 2, "text": "grüße\n😀\u2028"}
        after = await append(broker, "t", data)
        assert await stream.next() == Received("message", str(after), data)
        assert after.offset == before.offset + 1


async def test_position_is_told_before_the_first_event(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    at = await append(broker, "t", {"n": 1})
    async with http.stream("GET", "/topics/t/events") as response:
        lines = response.aiter_lines()
        head = [await anext(lines) for _ in range(3)]
    assert f"id: {at}" in head
    async with listen(http, "/topics/t/events", last=str(at)) as stream:
        await append(broker, "t", {"n": 2})
        assert numbers(await stream.take(1)) == [2]


@pytest.mark.parametrize("query", ["from=start", "last_event_id=start", "from=:0"])
async def test_stream_from_the_start(http: httpx.AsyncClient, broker: RedisBroker, query: str) -> None:
    await append(broker, "t", {"n": 1}, {"n": 2})
    async with listen(http, f"/topics/t/events?{query}") as stream:
        assert numbers(await stream.take(2)) == [1, 2]


async def test_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(
    http: httpx.AsyncClient, broker: RedisBroker
) -> None:
    await append(broker, "t", *[{"n": n} for n in range(1, 31)])
    got, last = [], ""
    for round_ in range(6):
        async with listen(http, "/topics/t/events?from=start", last=last) as stream:
            got += numbers(await stream.take(7))
            last = stream.id
        await append(broker, "t", *[{"n": 31 + round_ * 3 + n} for n in range(3)])
    assert got == list(range(1, 43))


@pytest.mark.parametrize("query", ["events?from=start", "events?from=start&format=ndjson", "stream?offset=-1&live=sse"])
async def test_a_stream_cut_anywhere_has_named_no_place_beyond_what_it_gave(
    http: httpx.AsyncClient, broker: RedisBroker, query: str
) -> None:
    await append(broker, "t", *[{"n": n} for n in range(1, 4)])
    text = ""
    async with http.stream("GET", f"/topics/t/{query}") as reply:
        async for piece in reply.aiter_text():
            text += piece
            if '{"n":3}' in text and text.endswith("\n"):
                break
    given = 0
    for block in text.split("\n" if "ndjson" in query else "\n\n"):
        given += len(re.findall(r'\{"n":\d\}', block))
        places = re.findall(r'^id: \w+:(\d+)$|"offset":(\d+)|"streamNextOffset":"(\d+)_', block, re.MULTILINE)
        assert all(int("".join(place)) <= given for place in places), text
    assert given == 3


async def test_many_readers_get_the_same(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(listen(http, "/topics/t/events?from=start")) for _ in range(3)]
        for n in range(20):
            await append(broker, "t", {"n": n}, {"n": -n})
        logs = [await stream.take(40) for stream in streams]
    assert logs[0] == logs[1] == logs[2]
    assert [parse_position(event.id).offset for event in logs[0]] == list(range(1, 41))


async def test_first_event_of_a_topic_nobody_has_written_arrives(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    async with listen(http, "/topics/fresh/events") as stream:
        await append(broker, "fresh", {"n": 1})
        await append(broker, "fresh", {"n": 2})
        assert numbers(await stream.take(2)) == [1, 2]


# positions that cannot be continued


@pytest.mark.parametrize("last", ["AAAAAAAA:1", "AAAAAAAA:99", "another server's id"])
async def test_unknown_position_is_told_and_the_stream_goes_on_live(
    http: httpx.AsyncClient, broker: RedisBroker, last: str
) -> None:
    at = await append(broker, "t", {"n": 1})
    async with listen(http, "/topics/t/events?from=start", last=last) as stream:
        gap = await stream.next()
        assert gap == Received("gap", str(at), {"type": "gap", "asked": last, "epoch": at.epoch, "offset": at.offset})
        await append(broker, "t", {"n": 2})
        assert numbers(await stream.take(1)) == [2]


async def test_unknown_position_of_a_mirror_is_answered_with_a_snapshot(
    http: httpx.AsyncClient, broker: RedisBroker
) -> None:
    at = await append(broker, "t", {"type": "agent_start", "run": "r", "agent": "a", "at": 1})
    async with listen(http, "/topics/t/events?mirror=1", last="AAAAAAAA:7") as stream:
        snapshot = await stream.next()
        assert (snapshot.name, snapshot.id) == ("snapshot", str(at))
        assert snapshot.data == {"type": "snapshot", **(await http.get("/topics/t")).json()}


async def test_trimmed_position_is_told(
    http: httpx.AsyncClient, broker: RedisBroker, redis_url: str, key_prefix: str
) -> None:
    first = await append(broker, "t", {"n": 1})
    await append(broker, "t", {"n": 2})
    await trim(broker, "t", http)
    async with (
        serve(redis_url, key_prefix) as other,  # one that has not seen the events
        httpx.AsyncClient(base_url=other.http, trust_env=False, timeout=PATIENCE) as elsewhere,
    ):
        async with listen(elsewhere, "/topics/t/events", last=str(first)) as stream:
            assert (await stream.next()).name == "gap"
        async with listen(elsewhere, "/topics/t/events?mirror=1", last=str(first)) as stream:
            assert (await stream.next()).name == "snapshot"


async def test_history_that_is_lost_under_a_reader_is_told(
    http: httpx.AsyncClient, broker: RedisBroker, redis: Redis
) -> None:
    old = await append(broker, "t", {"n": 1})
    async with (
        listen(http, "/topics/t/events?from=start") as stream,
        listen(http, "/topics/t/events?mirror=1", last=str(old)) as mirrored,
    ):
        await stream.take(1)
        await forget(redis, broker, "t")
        new = await append(broker, "t", {"n": 2})
        gap = await stream.next()
        assert (gap.name, gap.data["asked"], gap.data["epoch"]) == ("gap", str(old), new.epoch)
        snapshot = await mirrored.next()
        assert (snapshot.name, snapshot.id) == ("snapshot", str(new))
        await append(broker, "t", {"n": 3})
        assert numbers([await stream.next(), await mirrored.next()]) == [3, 3]


# mirrors


async def test_snapshot_and_the_events_after_it_are_the_whole(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    await append(broker, "t", {"type": "agent_start", "run": "r", "agent": "a", "at": 1})
    await append(broker, "t", {"type": "agent_delta", "run": "r", "message": "m", "text": "Hel"}, kind="d")
    async with listen(http, "/topics/t/events?mirror=1") as stream:
        snapshot = await stream.next()
        await append(broker, "t", {"type": "agent_delta", "run": "r", "message": "m", "text": "lo"}, kind="d")
        delta = await stream.next()
    mirror = Mirror.restore(snapshot.data)
    assert mirror.apply(Publication(offset=parse_position(delta.id).offset, data=delta.data)) == "applied"
    assert mirror.snapshot() == (await http.get("/topics/t")).json()


async def test_mirror_that_comes_back_goes_on_without_a_snapshot(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    await append(broker, "t", {"n": 1})
    async with listen(http, "/topics/t/events?mirror=1") as stream:
        assert (await stream.next()).name == "snapshot"
    await append(broker, "t", {"n": 2})
    async with listen(http, "/topics/t/events?mirror=1", last=stream.id) as stream:
        assert numbers(await stream.take(1)) == [2]


@pytest.mark.parametrize("form", ["sse", "ndjson"])
async def test_large_snapshot_is_one_event(http: httpx.AsyncClient, broker: RedisBroker, form: str) -> None:
    for n in range(60):
        await append(broker, "t", {"type": "log", "level": "info", "message": f"{n} ü😀\u2028" + 'x"\\' * 12_000})
    expected = (await http.get("/topics/t")).json()
    if form == "sse":
        async with listen(http, "/topics/t/events?mirror=1") as stream:
            got = (await stream.next()).data
    else:
        async with http.stream("GET", "/topics/t/events?mirror=1&format=ndjson") as response:
            line = json.loads(await anext(response.aiter_lines()))
            assert (line["event"], line["epoch"], line["offset"]) == ("snapshot", expected["epoch"], expected["offset"])
            got = line["data"]
    assert got == {"type": "snapshot", **expected}


async def test_history_lost_in_the_middle_of_a_snapshot_breaks_the_stream_off(
    served: Gateway, broker: RedisBroker, redis: Redis
) -> None:
    for _ in range(60):
        await append(broker, "t", {"type": "log", "level": "info", "message": "x" * 100_000})
    async with Raw(served, "GET /topics/t/events?mirror=1 HTTP/1.1", size=4096) as raw:
        await eventually(lambda: [reader for reader in served.hub.clients(Topic("t")) if reader.buffered > 60_000])  # type: ignore[attr-defined]
        await forget(redis, broker, "t")
        await append(broker, "t", {"n": 1})
        body = await raw.rest()
    assert b"\nid: " not in body, "an event must not end, the client would take it for the whole"


# other forms


async def test_lines_of_json(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    at = await append(broker, "t", {"n": 1})
    async with http.stream("GET", "/topics/t/events", headers={"accept": "application/x-ndjson"}) as response:
        assert response.headers["content-type"] == "application/x-ndjson"
        lines = response.aiter_lines()
        assert json.loads(await anext(lines)) == {
            "event": "open",
            "epoch": at.epoch,
            "offset": 1,
            "data": {"type": "open"},
        }
        await append(broker, "t", {"n": 2})
        assert json.loads(await anext(lines)) == {"epoch": at.epoch, "offset": 2, "data": {"n": 2}}


# HTTP


async def test_headers_keep_proxies_from_collecting(http: httpx.AsyncClient) -> None:
    async with http.stream("GET", "/topics/t/events") as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-cache, no-transform"
        assert response.headers["x-accel-buffering"] == "no"
        assert "content-length" not in response.headers
        assert response.headers["x-content-type-options"] == "nosniff"


async def test_head_and_options_answer_at_once(http: httpx.AsyncClient) -> None:
    head = await http.head("/topics/t/events")
    assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    options = await http.options("/topics/t/events")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert "access-control-allow-origin" not in options.headers
    assert (await http.post("/topics/t/events")).status_code == 405


async def test_page_of_an_allowed_origin_may_read(redis_url: str, key_prefix: str) -> None:
    origin = {"origin": "https://example.com"}
    async with (
        serve(redis_url, key_prefix, allowed_origins="https://example.com") as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http,
    ):
        preflight = await http.options("/topics/t/events", headers=origin)
        assert "last-event-id" in preflight.headers["access-control-allow-headers"]
        async with http.stream("GET", "/topics/t/events", headers=origin) as response:
            assert response.headers["access-control-allow-origin"] == "https://example.com"
            assert response.headers["vary"] == "origin"
        other = await http.get("/topics/t/events", headers={"origin": "https://evil.example"})
        assert (other.status_code, "access-control-allow-origin" in other.headers) == (403, False)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("from=yesterday", "start or a position"),
        ("last_event_id=7", "start or a position"),
        ("mirror=yes", "0 or 1"),
        ("format=xml", "sse or ndjson"),
    ],
)
async def test_bad_parameter_is_answered_with_what_was_expected(
    http: httpx.AsyncClient, query: str, expected: str
) -> None:
    reply = await http.get(f"/topics/t/events?{query}")
    assert reply.status_code == 400
    assert expected in reply.json()["error"]["message"]


async def test_topic_with_slashes(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    await append(broker, "a/events", {"n": 1})
    assert (await http.get("/topics/a%2Fevents")).json()["topic"] == "a/events"
    async with listen(http, "/topics/a%2Fevents/events?from=start") as stream:
        assert numbers(await stream.take(1)) == [1]
    assert (await http.get("/topics/ü/events")).status_code == 404


async def test_http_1_0_gets_the_bare_stream(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t", {"n": 1})
    async with Raw(served, "GET /topics/t/events?from=start HTTP/1.0") as raw:
        head = await raw.until(b"\r\n\r\n")
        assert b"transfer-encoding" not in head.lower()
        assert (await raw.until(b"\n\n")).endswith(b'data: {"n":1}\n\n')


# its life


async def test_quiet_stream_shows_that_it_is_alive(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix, ping_interval=0.2) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http,
        http.stream("GET", "/topics/t/events") as response,
    ):
        lines = response.aiter_lines()
        for _ in range(3):
            while await anext(lines) != ":":
                pass


async def test_reader_is_present_until_it_goes(served: Gateway, http: httpx.AsyncClient) -> None:
    async with listen(http, "/topics/t/events"):
        await eventually(lambda: served.hub.clients(Topic("t")))
        assert await served.hub.presence.count(Topic("t")) == (1, 1)
    await eventually(lambda: not served.hub.clients(Topic("t")))
    assert await served.hub.presence.count(Topic("t")) == (0, 0)
    assert not served.hub.readers


async def test_shutdown_ends_streams_and_the_next_gateway_goes_on(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "t", {"n": 1})
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=PATIENCE))
        async with serve(redis_url, key_prefix, drain=0.2) as gateway:
            stream = await stack.enter_async_context(listen(http, f"{gateway.http}/topics/t/events?from=start"))
            await stream.take(1)
        (word,) = await stream.ended()
        assert (word.name, word.data) == ("close", {"type": "close", "code": 3001, "reason": "shutdown"})
        await append(broker, "t", {"n": 2})
        gateway = await stack.enter_async_context(serve(redis_url, key_prefix))
        async with listen(http, f"{gateway.http}/topics/t/events?from=start", last=stream.id) as stream:
            assert numbers(await stream.take(1)) == [2]


async def test_broker_that_is_away_is_told(tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path, {"appendonly": "yes", "appendfsync": "always"}) as server:
        async with (
            contextlib.aclosing(RedisBroker(server.url, key_prefix=key_prefix)) as broker,
            serve(server.url, key_prefix, command_timeout=0.3) as gateway,
            httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http,
        ):
            await append(broker, "t", {"n": 1})
            async with listen(http, "/topics/t/events?from=start") as stream:
                await stream.take(1)
                with server.away():
                    assert (await stream.next()).data == {"type": "broker", "sure": False}
                    refused = await http.get("/topics/other/events")
                    assert (refused.status_code, refused.json()["error"]["code"]) == (503, 100)
                words = [await stream.next()]
                await append(broker, "t", {"n": 2})
                while words[-1].name != "message":
                    words.append(await stream.next())
                assert [word.data for word in words] == [{"type": "broker", "sure": True}, {"n": 2}]


# readers that are slow


async def test_reader_that_lags_gets_merged_deltas_and_nothing_is_lost(
    served: Gateway, http: httpx.AsyncClient, broker: RedisBroker
) -> None:
    async with Raw(served, "GET /topics/t/events?from=start HTTP/1.1", size=4096) as raw:
        await raw.until(b"\r\n\r\n")
        texts = [f"{n} " + "é" * 400 for n in range(1500)]
        for start in range(0, len(texts), 50):
            deltas = [
                {"type": "agent_delta", "run": "r", "message": "m", "text": text} for text in texts[start : start + 50]
            ]
            await append(broker, "t", *deltas, kind="d")
        (reader,) = served.hub.clients(Topic("t"))
        assert reader.buffered < 400_000  # type: ignore[attr-defined]
        async with listen(http, "/topics/t/events") as other:
            end = await append(broker, "t", {"n": "end"})
            while (await other.next()).id != str(end):  # nobody else waits
                pass
        body = await raw.until(b'{"n":"end"}')
    events = [json.loads(line[6:]) for line in unchunked(body).split(b"\n") if line.startswith(b"data: ")]
    assert "".join(event["text"] for event in events[:-1]) == "".join(texts)
    assert len(events) < 1000


async def test_reader_that_takes_nothing_is_cut_off_and_comes_back(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    async with (
        serve(redis_url, key_prefix, slow_timeout=0.4) as gateway,
        Raw(gateway, "GET /topics/t/events?from=start HTTP/1.1", size=4096) as raw,
    ):
        await raw.until(b"\r\n\r\n")
        for n in range(100):
            await append(broker, "t", {"n": n, "text": "x" * 20_000})
        await eventually(lambda: not gateway.hub.clients(Topic("t")))
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await raw.until(b"never")


async def test_stream_works_under_the_servers_own_protocol_classes(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    async with (
        serve(redis_url, key_prefix, http="h11", ws="websockets-sansio") as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http,
        listen(http, "/topics/t/events?from=start") as stream,
    ):
        await append(broker, "t", {"n": 1})
        assert numbers(await stream.take(1)) == [1]


class Raw:
    """A client that reads no more than it is told to."""

    def __init__(self, gateway: Gateway, request: str, *, size: int = 2**16) -> None:
        self._port = gateway.port
        self._request = f"{request}\r\nhost: 127.0.0.1\r\n\r\n".encode()
        self._size = size
        self._got = b""

    async def __aenter__(self) -> Self:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._size)
        self._socket.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self._socket, ("127.0.0.1", self._port))
        await loop.sock_sendall(self._socket, self._request)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._socket.close()

    async def until(self, mark: bytes) -> bytes:
        """Read up to the end of these bytes."""
        while mark not in self._got:
            piece = await self._receive()
            if not piece:
                raise asyncio.IncompleteReadError(self._got, None)
            self._got += piece
        found, _, self._got = self._got.partition(mark)
        return found + mark

    async def rest(self) -> bytes:
        """Read until the connection ends, however."""
        with contextlib.suppress(ConnectionResetError):
            while piece := await self._receive():
                self._got += piece
        return self._got

    async def _receive(self) -> bytes:
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self._socket, 2**16), PATIENCE)


def unchunked(body: bytes) -> bytes:
    """Take the chunks' sizes out of a body; its own lines never look like one."""
    whole, rest = b"", body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size or b"0", 16)
        whole, rest = whole + rest[:length], rest[length + 2 :]
    return whole

"""The HTTP connection itself: slow heads are cut, slow bodies and streams are not."""

import asyncio

import pytest

from gateway.streaming.protocol import StreamingProtocol
from tests.serving import PATIENCE, eventually, serve


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamingProtocol, "head_timeout", 0.3)
    monkeypatch.setattr(StreamingProtocol, "body_timeout", 0.5)


async def _until_cut(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: "])
async def test_head_that_does_not_come_whole_is_cut(redis_url: str, key_prefix: str, sent: bytes) -> None:
    async with serve(redis_url, key_prefix) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(sent)
        assert await _until_cut(reader) == b""
        writer.close()


async def test_second_head_on_a_connection_is_waited_for_no_longer(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        assert await _until_cut(reader) == b""
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"POST /api/info HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\n{",
        b"POST /api/info HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\n",
        b"GET /topics/t/events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\n",
    ],
)
async def test_body_that_trickles_is_cut(redis_url: str, key_prefix: str, head: bytes) -> None:
    async with serve(redis_url, key_prefix) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(head)
        until_cut = asyncio.create_task(_until_cut(reader))
        while not until_cut.done():
            writer.write(b" ")
            await asyncio.sleep(0.05)
        await until_cut
        writer.close()
        await eventually(lambda: not gateway.server.server_state.connections)
        await eventually(lambda: not gateway.server.server_state.tasks)


async def test_body_that_comes_whole_in_time_is_answered(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        for _ in range(3):
            writer.write(b"POST /api/channels HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\n\r\n{")
            await asyncio.sleep(0.05)
            writer.write(b"}")
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b"}}")
        writer.close()


@pytest.mark.parametrize("method", [b"GET", b"POST"])
async def test_body_that_is_no_http_is_refused_once(
    redis_url: str, key_prefix: str, method: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(redis_url, key_prefix) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(method + b" /api/info HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nx\r\n")
        answer = await _until_cut(reader)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
        writer.close()
        await eventually(lambda: not gateway.server.server_state.tasks)
    assert not [record for record in caplog.records if record.exc_info]


async def test_body_that_turns_bad_after_the_answer_began_ends_it(
    redis_url: str, key_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(redis_url, key_prefix) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"GET /topics/t/events HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"no chunk\r\n")
        await _until_cut(reader)
        writer.close()
        await eventually(lambda: not gateway.server.server_state.tasks)
    assert not [record for record in caplog.records if record.exc_info]


async def test_websocket_and_stream_outlast_it(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, ping_interval=0.5) as gateway, gateway.plain() as plain:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"GET /topics/t/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(2):  # pings: more than the timeout has passed
            await asyncio.wait_for(reader.readuntil(b"\n\n"), PATIENCE)
            await asyncio.wait_for(reader.readuntil(b"\n\n"), PATIENCE)
        assert await plain.ask("ping", {}) == {}
        writer.close()

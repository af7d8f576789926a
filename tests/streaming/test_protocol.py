"""The HTTP connection itself: slow heads are cut, slow bodies and streams are not."""

import asyncio

import pytest

from gateway.streaming.protocol import StreamingProtocol
from tests.serving import PATIENCE, serve


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamingProtocol, "head_timeout", 0.3)


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

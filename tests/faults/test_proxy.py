"""The faults of the proxy are what they say: seen by an echo on the other side."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.faults.proxy import Proxy
from tests.serving import eventually

PATIENCE = 20.0


class Echo:
    """A server that sends back what it gets."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1000):
                self.heard += data
                writer.write(data)
                await writer.drain()
        self.ended += 1
        writer.close()


@pytest_asyncio.fixture
async def echo() -> AsyncIterator[tuple[Echo, Proxy]]:
    echo = Echo()
    async with (
        await asyncio.start_server(echo.serve, "127.0.0.1", 0) as server,
        Proxy(server.sockets[0].getsockname()[1]) as proxy,
    ):
        yield echo, proxy


@contextlib.asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> bytes:
    writer.write(data)
    async with asyncio.timeout(PATIENCE):
        return await reader.readexactly(len(data))


async def test_carries_both_ways_and_passes_the_end_on(echo: tuple[Echo, Proxy]) -> None:
    server, proxy = echo
    async with connected(proxy) as (reader, writer):
        assert await said(reader, writer, b"x" * 300_000) == b"x" * 300_000
    await eventually(lambda: server.ended == 1 and proxy.connections == 0)


async def test_latency_delays_and_keeps_the_order(echo: tuple[Echo, Proxy]) -> None:
    _, proxy = echo
    loop = asyncio.get_running_loop()
    async with connected(proxy) as (reader, writer):
        await said(reader, writer, b"a")
        with proxy.latency(0.05):
            begun = loop.time()
            writer.write(b"b")
            await asyncio.sleep(0)
            assert await said(reader, writer, b"c") == b"b"
            assert loop.time() - begun >= 0.1  # there and back, each at least that: the one duration a proxy promises


async def test_stall_holds_back_and_loses_nothing(echo: tuple[Echo, Proxy]) -> None:
    server, proxy = echo
    async with connected(proxy) as (reader, writer):
        await said(reader, writer, b"a")
        with proxy.stall():
            writer.write(b"b")
            for _ in range(20):
                await asyncio.sleep(0.002)
            assert server.heard == b"a"
        async with asyncio.timeout(PATIENCE):
            assert await reader.readexactly(1) == b"b"


async def test_cut_resets_and_refuses_until_its_end(echo: tuple[Echo, Proxy]) -> None:
    server, proxy = echo
    async with connected(proxy) as (reader, writer):
        await said(reader, writer, b"a")
        with proxy.cut():
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.readexactly(1), PATIENCE)
            await eventually(lambda: server.ended == 1)
            async with connected(proxy) as (late, _):
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.wait_for(late.read(1), PATIENCE) == b""
    async with connected(proxy) as (reader, writer):
        assert await said(reader, writer, b"b") == b"b"


async def test_half_open_tells_neither_end(echo: tuple[Echo, Proxy]) -> None:
    server, proxy = echo
    async with connected(proxy) as (reader, writer):
        await said(reader, writer, b"a")
        with proxy.half_open():
            writer.write(b"lost")
        async with connected(proxy) as (other, others):
            assert await said(other, others, b"b") == b"b"
        writer.write(b"too")
        async with connected(proxy) as (other, others):
            assert await said(other, others, b"c") == b"c"
        assert server.heard == b"abc"
        assert not reader.at_eof()
        await eventually(lambda: proxy.connections == 1 and server.ended == 2)


async def test_drop_after_cuts_in_the_middle(echo: tuple[Echo, Proxy]) -> None:
    _, proxy = echo
    async with connected(proxy) as (reader, writer):
        async with proxy.drop_after(3):
            writer.write(b"abcdef")
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b"abc"
    async with connected(proxy) as (reader, writer):
        assert await said(reader, writer, b"whole") == b"whole"

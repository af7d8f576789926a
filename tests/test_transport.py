"""The direct road to the socket, and the drain."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.broker.redis import RedisBroker
from gateway.connection import Connection
from gateway.transport import DirectWriter, GatewayProtocol
from tests.serving import PATIENCE, Plain, append, eventually, serve

HANDSHAKE = (
    b"GET /connection/websocket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Do nothing: the protocol is only looked at."""


async def test_uvicorn_has_every_attribute_that_is_used() -> None:
    config = uvicorn.Config(application, ws="gateway.transport:GatewayProtocol", log_config=None)
    config.load()
    assert config.ws_protocol_class is GatewayProtocol
    protocol = WebSocketsSansIOProtocol(config, ServerState(), {})
    for name, kind in {
        "connections": set,
        "disconnected": bool,
        "handshake_initiated": bool,
        "read_paused": bool,
    }.items():
        assert isinstance(getattr(protocol, name), kind), name
    assert protocol.transport is None  # until the connection is made
    for name in ("data_received", "handle_connect"):
        assert callable(getattr(WebSocketsSansIOProtocol, name)), name
        assert name in vars(GatewayProtocol), name
    assert protocol.conn.debug in {True, False}
    assert protocol.conn.extensions == []
    assert protocol.conn.available_extensions is not None


async def test_messages_and_frames_go_the_direct_way(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix) as gateway, gateway.plain() as plain:
        (reader,) = gateway.hub.readers
        assert isinstance(reader, Connection)
        assert isinstance(reader._writer, DirectWriter)
        assert await plain.ask("ping", {}) == {}
        # Nothing of uvicorn's is left but the socket: no task waits for the connection, no queue is between.
        connections: set[object] = set(gateway.server.server_state.connections)
        assert connections == {reader._writer}
        await eventually(lambda: not gateway.server.server_state.tasks)


@contextlib.asynccontextmanager
async def running(app: Any) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """Serve an application under the protocol."""
    config = uvicorn.Config(app, ws="gateway.transport:GatewayProtocol", port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    await eventually(lambda: server.started)
    try:
        yield server, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, PATIENCE)


class Recorder:
    """A receiver that only notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[bytes, bool]] = []
        self.ended = asyncio.Event()

    def received(self, data: bytes, *, text: bool) -> None:
        self.heard.append((data, text))

    def paused(self) -> None:
        raise AssertionError("nothing was written")

    def resumed(self) -> None:
        raise AssertionError("nothing was paused")

    def closed(self) -> None:
        self.ended.set()

    def shutting_down(self) -> None:
        raise AssertionError("the connection ends before the server")


class Late:
    """An application that takes a connection over only once its gate is open."""

    def __init__(self, *, accepts: bool) -> None:
        self.accepts = accepts
        self.gate = asyncio.Event()
        self.recorder = Recorder()
        self.handshake: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        writer = scope["extensions"]["gateway.writer"]
        self.handshake = writer._handshake
        await receive()
        await self.gate.wait()
        if self.accepts:
            await send({"type": "websocket.accept"})
        writer.attach(self.recorder, max_frame=1000, deflate_from=0)


async def test_messages_that_came_before_the_receiver_are_passed_on_in_order() -> None:
    late = Late(accepts=True)
    async with running(late) as (_, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        await eventually(lambda: late.handshake is not None)
        writer.write(bytes([0x81, 0x82, 0, 0, 0, 0]) + b"{}")
        await eventually(lambda: late.handshake._early)
        late.gate.set()
        await eventually(lambda: late.recorder.heard)
        writer.write(bytes([0x82, 0x81, 0, 0, 0, 0]) + b"x")
        await eventually(lambda: len(late.recorder.heard) == 2)
        assert late.recorder.heard == [(b"{}", True), (b"x", False)]
        writer.close()
        await asyncio.wait_for(late.recorder.ended.wait(), PATIENCE)


async def test_a_client_that_says_too_much_too_early_is_not_read_on() -> None:
    late = Late(accepts=True)
    async with running(late) as (_, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        await eventually(lambda: late.handshake is not None)
        for _ in range(10_000):
            writer.write(bytes([0x81, 0x94, 0, 0, 0, 0]) + b"x" * 20)
        await eventually(lambda: late.handshake.read_paused)
        assert len(late.handshake._early) < 400_000
        late.gate.set()
        await eventually(lambda: len(late.recorder.heard) == 10_000)
        writer.close()
        await asyncio.wait_for(late.recorder.ended.wait(), PATIENCE)


async def test_a_client_that_goes_before_it_is_accepted_is_let_go() -> None:
    late = Late(accepts=False)
    async with running(late) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        await eventually(lambda: late.handshake is not None)
        writer.close()
        await eventually(lambda: late.handshake.disconnected)
        late.gate.set()
        await asyncio.wait_for(late.recorder.ended.wait(), PATIENCE)
        assert not server.server_state.connections


async def test_fragmented_message_is_taken_whole(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix) as gateway, gateway.plain() as plain:
        await plain.socket.send(iter(['{"id":9,', '"ping"', ":{}}"]))
        assert await plain.reply(9) == {"id": 9, "ping": {}}


async def test_slow_reader_shows_after_little(redis_url: str, key_prefix: str) -> None:
    """By default the kernel takes megabytes before `pause_writing`."""
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    await append(broker, "lowat", {"n": 1})
    async with serve(redis_url, key_prefix) as gateway, gateway.plain() as plain:
        await plain.ask("subscribe", {"channel": "lowat"})
        (connection,) = gateway.hub.readers
        assert isinstance(connection, Connection)
        transport: Any = plain.socket.transport
        transport.pause_reading()
        written = 0
        while not connection._paused:
            await append(broker, "lowat", {"text": "x" * 20_000})
            written += 20_000
            await asyncio.sleep(0.001)
        # The peer's own receive buffer is in it, which is the peer's to size.
        assert written < 8 * 1024 * 1024
        assert connection.buffered < 256 * 1024
        transport.resume_reading()
        await eventually(lambda: not connection._paused or transport.is_closing())
    await broker.aclose()


async def test_large_frames_are_compressed_for_who_can_read_them(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    await append(broker, "packed", {})  # from a topic that nobody has written a snapshot would come first
    async with (
        serve(redis_url, key_prefix, deflate_from=500) as gateway,
        gateway.plain() as plain,
        connect(gateway.url, compression="deflate", max_size=None) as socket,
    ):
        assert socket.response is not None
        offer = socket.response.headers["Sec-WebSocket-Extensions"]
        assert "server_no_context_takeover" in offer
        assert "client_no_context_takeover" in offer
        packed = Plain(socket)
        await packed.ask("connect", {})
        for reader in (packed, plain):
            await reader.ask("subscribe", {"channel": "packed", "data": {"mirror": True}})
        written: list[int] = []
        connections = [found for found in gateway.hub.readers if isinstance(found, Connection)]
        for connection in connections:
            writer: Any = connection._writer
            raw = writer._transport
            writer._transport = Counting(raw, written)
            for subscriber in connection._reading._subscribers.values():
                subscriber.write = writer.direct
        for size in (10, 20_000, 10, 40_000):
            await append(broker, "packed", {"text": "x" * size})
            found = [(await reader.pub())["data"] for reader in (packed, plain)]
            assert found == [{"text": "x" * size}] * 2
        assert min(written[2:4]) < 1000
        assert max(written[2:4]) > 20_000
        assert written[0] == written[1]
    await broker.aclose()


class Counting:
    """A transport that notes how much is written to it."""

    def __init__(self, transport: Any, written: list[int]) -> None:
        self._transport = transport
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._written.append(len(data))
        self._transport.write(data)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x88\x82\0\0\0\0\x03\xe8", 1000),
        (b"\x88\x80\0\0\0\0", None),
        (b"\x88\x81\0\0\0\0\x03", 1002),
        (b"\x88\x82\0\0\0\0\x03\xed", 1002),  # 1005 never travels
        (b"\x88\x84\0\0\0\0\x03\xe8\xff\xff", 1007),
        (b"\x81\x01a", 1002),
        (b"\xc1\x81\0\0\0\0a", 1002),
        (b"\x83\x80\0\0\0\0", 1002),
        (b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 1009),
    ],
)
async def test_closing_and_broken_frames_are_answered_with_their_code(
    redis_url: str, key_prefix: str, sent: bytes, code: int | None
) -> None:
    async with serve(redis_url, key_prefix) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x89\x82\0\0\0\0hi" + sent + b"\x81\x81\0\0\0\0x")
        rest = await asyncio.wait_for(reader.read(), PATIENCE)
        assert rest.startswith(b"\x8a\x02hi\x88")
        assert (int.from_bytes(rest[6:8]) if len(rest) > 6 else None) == code
        writer.close()
        await eventually(lambda: not gateway.server.server_state.connections)


async def test_drain_closes_everybody_with_a_code_that_invites_back(redis_url: str, key_prefix: str) -> None:
    codes = []
    async with serve(redis_url, key_prefix, drain=0.5) as gateway:
        sockets = [await connect(gateway.url, compression=None) for _ in range(40)]
        plains = [Plain(socket) for socket in sockets]
        for plain in plains:
            await plain.ask("connect", {})
        gateway.server.should_exit = True
        codes = [(await plain.closed())[0] for plain in plains]
    assert codes == [3001] * 40


async def test_drain_ends_though_a_client_never_answers(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, drain=0.0) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
    # `serve` has waited for the server's end; the socket was cut.
    rest = await asyncio.wait_for(reader.read(), PATIENCE)
    assert rest[:2] == b"\x88\x0a"
    assert int.from_bytes(rest[2:4]) == 3001
    writer.close()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "run.py"
    path.write_text(
        "import sys, uvicorn\n"
        "if __name__ == '__main__':\n"
        "    uvicorn.run('gateway.app:app_from_env', factory=True, ws=sys.argv[2], port=int(sys.argv[1]),\n"
        "                ws_ping_interval=None, workers=int(sys.argv[3]), log_level='debug')\n"
    )
    return path


async def reachable(port: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with connect(f"ws://127.0.0.1:{port}/connection/websocket", compression=None) as socket:
                    plain = Plain(socket)
                    await plain.ask("connect", {})
                    return
            except (OSError, ConnectionClosed, EOFError):
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("workers", [1, 2])
async def test_signal_drains_real_processes_and_no_log_has_the_token(
    script: Path, redis_url: str, key_prefix: str, unused_tcp_port: int, workers: int
) -> None:
    environment = {
        **os.environ,
        "GATEWAY_REDIS_URL": redis_url,
        "GATEWAY_KEY_PREFIX": key_prefix,
        "GATEWAY_DRAIN": "0.3",
        "PYTHONPATH": str(Path(__file__).parent.parent),
    }
    process = subprocess.Popen(
        [sys.executable, str(script), str(unused_tcp_port), "gateway.transport:GatewayProtocol", str(workers)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        await reachable(unused_tcp_port)
        url = f"ws://127.0.0.1:{unused_tcp_port}/connection/websocket"
        with pytest.raises(InvalidStatus, match="400"):
            await connect(url + "?token=s3cret-in-url", compression=None)
        async with connect(url + "?other=s3cret-in-url", compression=None) as socket:
            plain = Plain(socket)
            await plain.socket.send(json.dumps({"id": 1, "connect": {"token": "s3cret-in-frame"}}))
            await plain.reply(1)
            process.send_signal(signal.SIGTERM)
            assert (await plain.closed())[0] == 3001
        output = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in {0, -signal.SIGTERM}
    text = output[0].decode()
    assert "/connection/websocket?…" in text
    assert "s3cret" not in text

"""The direct road to the socket, and the drain."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

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
        "close_sent": bool,
        "read_paused": bool,
        "frames": list,
        "curr_msg_data_type": str,
        "queue": asyncio.Queue,
        "loop": asyncio.AbstractEventLoop,
    }.items():
        assert isinstance(getattr(protocol, name), kind), name
    assert protocol.transport is None  # until the connection is made
    assert protocol.close_timer is None
    for name in (
        "handle_connect",
        "send_receive_event_to_app",
        "pause_writing",
        "resume_writing",
        "handle_close",
        "handle_parser_exception",
        "connection_lost",
        "shutdown",
    ):
        assert callable(getattr(WebSocketsSansIOProtocol, name)), name
        assert name in vars(GatewayProtocol), name
    assert protocol.conn.debug in {True, False}
    assert protocol.conn.max_message_size == config.ws_max_size
    assert callable(protocol.conn.send_close)
    assert callable(protocol.conn.data_to_send)


async def test_messages_and_frames_go_the_direct_way(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix) as gateway, gateway.plain() as plain:
        (reader,) = gateway.hub.readers
        assert isinstance(reader, Connection)
        assert isinstance(reader._writer, DirectWriter)
        protocol = reader._writer._protocol
        assert await plain.ask("ping", {}) == {}
        assert protocol.queue.empty()
        assert not protocol.read_paused


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


async def test_messages_that_came_before_the_receiver_are_passed_on_in_order() -> None:
    gate, recorder = asyncio.Event(), Recorder()
    waiting: list[Any] = []

    async def late(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        writer = scope["extensions"]["gateway.writer"]
        waiting.append(writer._protocol.queue)
        await receive()
        await gate.wait()
        await send({"type": "websocket.accept"})
        writer.attach(recorder, max_frame=1000)
        await receive()

    config = uvicorn.Config(late, ws="gateway.transport:GatewayProtocol", port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    await eventually(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HANDSHAKE)
    await eventually(lambda: waiting)
    writer.write(bytes([0x81, 0x82, 0, 0, 0, 0]) + b"{}")
    await eventually(lambda: waiting[0].qsize() == 1)
    gate.set()
    await eventually(lambda: recorder.heard)
    writer.write(bytes([0x82, 0x81, 0, 0, 0, 0]) + b"x")
    await eventually(lambda: len(recorder.heard) == 2)
    assert recorder.heard == [(b"{}", True), (b"x", False)]
    writer.close()
    await asyncio.wait_for(recorder.ended.wait(), PATIENCE)
    server.should_exit = True
    await asyncio.wait_for(task, PATIENCE)


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
        url = f"ws://127.0.0.1:{unused_tcp_port}/connection/websocket?token=s3cret-in-url"
        async with connect(url, compression=None) as socket:
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

"""Real gateways in this process, and plain websockets to talk to them."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from gateway.app import create_app
from gateway.broker.port import AppendRequest, Broker, Entry
from gateway.broker.redis import RedisBroker
from gateway.codec import encode_event
from gateway.hub import Hub
from gateway.settings import Settings
from gateway.types import START, Position, Topic, new_id

__all__ = ["Gateway", "Plain", "append", "eventually", "serve"]

PATIENCE = 20.0


class Gateway:
    """A running gateway."""

    def __init__(self, server: uvicorn.Server, port: int, hub: Hub) -> None:
        self.server = server
        self.port = port
        self.hub = hub

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/connection/websocket"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.asynccontextmanager
    async def plain(self, *, hello: bool = True) -> AsyncIterator["Plain"]:
        """A websocket of its own; `hello` sends the connect command."""
        async with connect(self.url, compression=None, max_size=None, ping_interval=None, close_timeout=1) as socket_:
            plain = Plain(socket_)
            if hello:
                await plain.ask("connect", {})
            yield plain


@contextlib.asynccontextmanager
async def serve(
    redis_url: str,
    key_prefix: str,
    *,
    ws: str = "gateway.transport:GatewayProtocol",
    http: str = "gateway.streaming.protocol:StreamingProtocol",
    broker: Broker | None = None,
    port: int = 0,
    **settings: Any,
) -> AsyncIterator[Gateway]:
    """Run a gateway on a free port."""
    app = create_app(Settings(redis_url=redis_url, key_prefix=key_prefix, **settings), broker=broker)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        app,
        http=http,
        ws=ws,
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        proxy_headers=False,
        log_config=None,
        timeout_graceful_shutdown=10,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve([listening]))
    try:
        await eventually(lambda: server.started or task.done())
        if task.done():
            task.result()
        gateway = Gateway(server, listening.getsockname()[1], app.state.hub)
        await eventually(lambda: gateway.hub.sure)
        yield gateway
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, PATIENCE)


class Plain:
    """The protocol spoken by hand."""

    def __init__(self, socket_: ClientConnection) -> None:
        self.socket = socket_
        self.pushes: list[dict[str, Any]] = []
        self.frames: list[int] = []
        """Bytes of each frame."""
        self._lines: list[str] = []
        self._id = 0

    async def ask(self, method: str, request: Any) -> Any:
        """Send a command and give its reply's body, or its error."""
        reply = await self.reply(await self.command(method, request))
        return reply["error"] if "error" in reply else reply[method]

    async def command(self, method: str, request: Any) -> int:
        self._id += 1
        await self.socket.send(json.dumps({"id": self._id, method: request}))
        return self._id

    async def reply(self, number: int) -> dict[str, Any]:
        """Read until the reply with this id; pushes on the way are kept."""
        while True:
            line = await self.line()
            if line.get("id") == number:
                return line
            self.pushes.append(line["push"])

    async def push(self) -> dict[str, Any]:
        """Give the next push."""
        if self.pushes:
            return self.pushes.pop(0)
        line = await self.line()
        assert "push" in line, line
        push: dict[str, Any] = line["push"]
        return push

    async def pub(self) -> dict[str, Any]:
        """Give the next publication."""
        pub: dict[str, Any] = (await self.push())["pub"]
        return pub

    async def closed(self, *, silently: bool = False) -> tuple[int | None, str]:
        """Read until the close frame, `silently` without answering pings; give its code and reason."""
        try:
            while True:
                await (asyncio.wait_for(self.socket.recv(), PATIENCE) if silently else self.line())
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (None, "")

    async def line(self) -> dict[str, Any]:
        """Give the next line; pings are answered."""
        while True:
            while not self._lines:
                data = await asyncio.wait_for(self.socket.recv(), PATIENCE)
                assert isinstance(data, str)
                self.frames.append(len(data.encode()))
                self._lines = data.split("\n")
            line: dict[str, Any] = msgspec.json.decode(self._lines.pop(0))
            if line:
                return line
            await self.socket.send("{}")


async def append(broker: RedisBroker, topic: str, *events: dict[str, Any], kind: str = "h") -> Position:
    """Put events on a topic, as somebody else would."""
    entries = [
        Entry(kind=kind, type=event.get("type", ""), data=encode_event(event), message=event.get("message", ""))  # type: ignore[arg-type]
        for event in events
    ]
    answer = await broker.append(
        Topic(topic), AppendRequest(writer=f"test-{new_id()}", seq="1", entries=entries), position=START
    )
    return answer.position  # type: ignore[union-attr]


async def eventually(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)

"""A websocket server that speaks PROTOCOL 2 and leaves each answer to the test."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.server import ServerConnection, serve


class Command:
    """A command that waits for its answer."""

    def __init__(self, connection: ServerConnection, line: dict[str, Any]) -> None:
        self.connection = connection
        self.number = line.pop("id")
        ((self.method, self.body),) = line.items()

    async def reply(self, body: dict[str, Any], *more: dict[str, Any]) -> None:
        """Answer, and send further lines in the same frame."""
        lines = [{"id": self.number, self.method: body}, *more]
        await self.connection.send("\n".join(json.dumps(line) for line in lines))

    async def refuse(self, code: int, *, temporary: bool = False) -> None:
        error = {"code": code, "message": "no", **({"temporary": True} if temporary else {})}
        await self.connection.send(json.dumps({"id": self.number, "error": error}))

    async def push(self, *publications: dict[str, Any]) -> None:
        """Send publications on the topic of this subscribe command, in one frame."""
        lines = [push(self.body["channel"], publication) for publication in publications]
        await self.connection.send("\n".join(json.dumps(line) for line in lines))

    async def send(self, line: object) -> None:
        await self.connection.send(line if isinstance(line, str) else json.dumps(line))

    async def close(self, code: int, reason: str = "") -> None:
        await self.connection.close(code, reason)


class ProtocolServer:
    """What the clients of one test connect to.

    Attributes:
        connected: The bodies of the connect commands, in order.
        pongs: How many pings were answered.
        refuse_connect: The error with which the next connect command is answered.
        beside_connect: A line that is sent in one frame with the reply to connect.

    """

    def __init__(self) -> None:
        self.port = 0
        self.connected: list[dict[str, Any]] = []
        self.pongs = asyncio.Semaphore(0)
        self.ping: dict[str, Any] = {"ping": 25, "pong": True}
        self.refuse_connect: dict[str, Any] | None = None
        self.beside_connect: dict[str, Any] | None = None
        self._commands: asyncio.Queue[Command] = asyncio.Queue()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def command(self, method: str) -> Command:
        """Wait for the next command, which must have this method."""
        async with asyncio.timeout(20):
            command = await self._commands.get()
        assert command.method == method, (command.method, command.body)
        return command

    async def serve(self, connection: ServerConnection) -> None:
        async for frame in connection:
            for text in str(frame).split("\n"):
                line = json.loads(text)
                if not line:
                    self.pongs.release()
                elif "connect" in line:
                    await self._connect(connection, line)
                else:
                    self._commands.put_nowait(Command(connection, line))

    async def _connect(self, connection: ServerConnection, line: dict[str, Any]) -> None:
        self.connected.append(line["connect"])
        error, self.refuse_connect = self.refuse_connect, None
        if error is not None:
            await connection.send(json.dumps({"id": line["id"], "error": error}))
        else:
            reply = {"id": line["id"], "connect": {"client": "c", **self.ping}}
            beside = [] if self.beside_connect is None else [self.beside_connect]
            await connection.send("\n".join(map(json.dumps, [reply, *beside])))


@contextlib.asynccontextmanager
async def protocol_server(port: int = 0) -> AsyncIterator[ProtocolServer]:
    server = ProtocolServer()
    async with serve(server.serve, "127.0.0.1", port) as listening:
        (socket,) = listening.sockets
        server.port = socket.getsockname()[1]
        yield server


def push(channel: str, publication: dict[str, Any]) -> dict[str, Any]:
    return {"push": {"channel": channel, "pub": publication}}


def delta(offset: int, text: str = "x", *, first: int | None = None) -> dict[str, Any]:
    """Make the publication of a delta of message m."""
    publication: dict[str, Any] = {
        "offset": offset,
        "data": {"type": "agent_delta", "run": "r", "message": "m", "text": text},
    }
    if first is not None:
        publication["tags"] = {"from": str(first)}
    return publication


def no_waiting(low: float, high: float) -> float:
    """Stand in for the jitter of the backoff, where a test is not about it."""
    return min(high, low + 0.001)

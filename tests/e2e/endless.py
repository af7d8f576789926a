"""A model provider over real HTTP that never comes to an end, and knows whose connection is still open."""

import asyncio
import contextlib
import json
from types import TracebackType
from typing import Any, Self

__all__ = ["EndlessProvider"]

PAUSE = 0.01
"""Seconds between two words."""


class EndlessProvider:
    """Speaks chat completions: the model `streaming` writes for ever, the model `silent` says nothing for ever.

    An async context manager.
    """

    def __init__(self) -> None:
        self._server: asyncio.Server
        self._connections: set[asyncio.Task[None]] = set()
        self.asked: dict[str, int] = {}
        """How often each message was asked about."""
        self.open: dict[str, int] = {}
        """Connections that the other end has not closed, by the message that they were opened for."""
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._answer(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:"))
            asked = json.loads(await reader.readexactly(length))
            message = asked["messages"][-1]["content"]
            self.asked[message] = self.asked.get(message, 0) + 1
            self.open[message] = self.open.get(message, 0) + 1
            writing = asyncio.create_task(self._write(writer, asked["model"]))
            try:
                # The client has nothing more to say: what ends this is that it leaves.
                await reader.read()
            finally:
                self.open[message] -= 1
                writing.cancel()
                await asyncio.wait([writing])
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, model: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        number = 0
        while model == "streaming":
            delta: dict[str, Any] = {"content": f"word{number} "}
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            common = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": model}
            data = f"data: {json.dumps({**common, 'choices': [choice]})}\n\n".encode()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
            await asyncio.sleep(PAUSE)
            number += 1

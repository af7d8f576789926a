"""A model provider's server over real HTTP: it streams what the test gives it, and sees who leaves."""

import asyncio
import contextlib
import json
from types import TracebackType
from typing import Any, Self

__all__ = ["BREAK", "HANG", "Provider", "Response"]

BREAK = object()
"""The connection breaks here."""

HANG = object()
"""Nothing more comes, until the client leaves."""

Response = list[Any] | int | object
"""Events, `BREAK` and `HANG` among them; a status alone; or `HANG` for no answer at all."""


class Provider:
    """Answers one request after another, each by the next of the responses; an async context manager.

    Args:
        responses: What to answer.
        named: Whether events are sent under their type, as Anthropic does.
        done: Whether a stream ends with ``[DONE]``, as OpenAI's does.

    """

    def __init__(self, *responses: Response, named: bool = False, done: bool = False) -> None:
        self._responses = list(responses)
        self._named = named
        self._done = done
        self._server: asyncio.Server
        self._connections: set[asyncio.Task[None]] = set()
        self.asked: list[dict[str, Any]] = []
        """The bodies of the requests."""
        self.left = asyncio.Event()
        """Whether a client has closed its connection where it was left to hang."""
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()
        if self._connections:
            await asyncio.wait(self._connections)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(asyncio.create_task(self._answer(reader, writer)))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:"))
            self.asked.append(json.loads(await reader.readexactly(length)))
            response = self._responses.pop(0)
            if response is HANG:
                await self._hang(reader)
            elif isinstance(response, int):
                writer.write(b"HTTP/1.1 %d no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % response)
            elif isinstance(response, list):
                await self._stream(reader, writer, response)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, events: list[Any]) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for event in events:
            await writer.drain()
            if event is BREAK:
                writer.transport.abort()
                return
            if event is HANG:
                await self._hang(reader)
                return
            name = f"event: {event['type']}\n" if self._named else ""
            self._write(writer, f"{name}data: {json.dumps(event)}\n\n")
        if self._done:
            self._write(writer, "data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _hang(self, reader: asyncio.StreamReader) -> None:
        await reader.read()
        self.left.set()

    @staticmethod
    def _write(writer: asyncio.StreamWriter, text: str) -> None:
        data = text.encode()
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))

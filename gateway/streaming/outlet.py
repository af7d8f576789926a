"""The body of an HTTP response that grows: what is written waits, within a bound, until the socket takes it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from gateway.writer import HIGH_WATER, LOW_WATER

__all__ = ["EXTENSION", "Outlet", "Socket", "Source"]

EXTENSION = "gateway.socket"
"""Under this name `gateway.streaming.protocol` offers the `Socket` in an HTTP scope's extensions."""

CHUNK = 64 * 1024
"""Bytes that are handed to the server at a time."""

_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Socket(Protocol):
    """What our own server tells of a request's socket, beyond ASGI."""

    @property
    def buffered(self) -> int:
        """Bytes that the kernel has not taken yet."""

    def begin(self, shutting_down: Callable[[], None]) -> None:
        """A long response begins: let a slow reader show early, and call this when the server is asked to end."""

    def cut(self) -> None:
        """End the connection at once, whatever waits."""


class Source(Protocol):
    """Who writes into an outlet."""

    def paused(self) -> None:
        """Stop writing: the socket takes no more for now."""

    def resumed(self) -> None:
        """Write again."""


class Outlet:
    """Takes bytes synchronously and sends them as fast as the socket takes them."""

    def __init__(self, send: _Send, source: Source, socket: Socket | None) -> None:
        """Make an outlet for a response that has been started.

        Args:
            send: The request's ASGI ``send``.
            source: Who is told when it is full, and when it is not any more.
            socket: The socket, where the server offers it.

        """
        self._send = send
        self._source = source
        self._socket = socket
        self._waiting: deque[bytes] = deque()
        self._size: int = 0
        self._paused: bool = False
        self._ending: bool = False
        self._running: asyncio.Task[Any] | None = None
        self._more = asyncio.Event()

    @property
    def buffered(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self._size + (0 if self._socket is None else self._socket.buffered)

    def write(self, data: bytes) -> None:
        """Send something after what waits; nothing happens once it ends."""
        if self._ending or not data:
            return
        self._waiting.append(data)
        self._size += len(data)
        self._more.set()
        if self._size > HIGH_WATER and not self._paused:
            self._paused = True
            self._source.paused()

    def end(self) -> None:
        """End the response after what waits."""
        self._ending = True
        self._more.set()

    def cut(self) -> None:
        """End the connection now; the task of `run` is cancelled, as it may wait for a socket that never drains."""
        self._ending = True
        if self._socket is not None:
            self._socket.cut()
        if self._running is not None:
            self._running.cancel()

    async def run(self) -> None:
        """Send until the end."""
        self._running = asyncio.current_task()
        while True:
            while self._waiting:
                chunk = self._next()
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                self._size -= len(chunk)
                if self._paused and self._size <= LOW_WATER:
                    self._paused = False
                    self._source.resumed()
            if self._ending:
                await self._send({"type": "http.response.body", "body": b""})
                return
            self._more.clear()
            await self._more.wait()

    def _next(self) -> bytes:
        """Take about `CHUNK` bytes off the front."""
        waiting = self._waiting
        if len(waiting[0]) > CHUNK:
            first = waiting.popleft()
            waiting.appendleft(first[CHUNK:])
            return first[:CHUNK]
        size, count = 0, 0
        for piece in waiting:
            if count and size + len(piece) > CHUNK:
                break
            size += len(piece)
            count += 1
        return b"".join([waiting.popleft() for _ in range(count)])

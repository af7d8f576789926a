"""The one road out of a connection: who writes frames, and who hears the socket."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol

from gateway.frames import frame_payloads

__all__ = ["AsgiWriter", "FrameWriter", "Receiver"]

HIGH_WATER = 64 * 1024
LOW_WATER = 16 * 1024

_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Receiver(Protocol):
    """Who hears a socket; every method is called in the loop and must not block or raise."""

    def received(self, data: bytes, *, text: bool) -> None:
        """Take one whole message."""

    def paused(self) -> None:
        """Stop writing: the socket takes no more for now."""

    def resumed(self) -> None:
        """Write again: the buffer has drained."""

    def closed(self) -> None:
        """Let go: nothing can be written any more."""

    def shutting_down(self) -> None:
        """Close within the drain: the server was asked to end."""


class FrameWriter(Protocol):
    """Writes finished websocket frames to one socket, synchronously."""

    def attach(self, receiver: Receiver, *, max_frame: int, deflate_from: int) -> None:
        """Start: messages go to the receiver from here on.

        Args:
            receiver: Who hears the socket.
            max_frame: Bytes of the largest message that is taken.
            deflate_from: Bytes from which a frame is compressed, where the client can; 0 compresses none.

        """

    def write(self, frames: bytes) -> None:
        """Write one or more frames; nothing happens once it is closing."""

    @property
    def direct(self) -> Callable[[bytes], None]:
        """Does what `write` does, in the fewest steps there are; not to be called once `Receiver.closed` was."""

    def write_all(self, frames: Sequence[bytes]) -> None:
        """Write what `write` takes, several times, at once."""

    @property
    def buffered(self) -> int:
        """Bytes that the kernel has not taken yet."""

    @property
    def closing(self) -> bool:
        """Whether nothing more can be written."""

    def close(self, code: int, reason: str) -> None:
        """Send a close frame after what was written; the socket is cut if the peer does not answer in time."""

    def pause_reading(self) -> None:
        """Leave what the client sends in the kernel."""

    def resume_reading(self) -> None:
        """Take messages again."""


class AsgiWriter:
    """A `FrameWriter` for ASGI servers other than ours: frames wait in a short queue for ``websocket.send``."""

    def __init__(self, send: _Send) -> None:
        """Make a writer over an accepted connection's ``send``."""
        self._send = send
        self._receiver: Receiver | None = None
        self._frames: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._readable = asyncio.Event()
        self._readable.set()
        self._buffered: int = 0
        self._paused: bool = False
        self._close: tuple[int, str] | None = None
        self._ended: bool = False
        self._task: asyncio.Task[None] | None = None

    def attach(self, receiver: Receiver, *, max_frame: int, deflate_from: int) -> None:
        """Start sending; the server passes the messages, `Receiver.received` is called by who reads them."""
        self._receiver = receiver
        self._task = asyncio.create_task(self._run())

    @property
    def buffered(self) -> int:
        """Bytes that the server has not taken yet."""
        return self._buffered

    @property
    def closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._ended or self._close is not None

    def write(self, frames: bytes) -> None:
        """Queue one or more frames."""
        if self.closing:
            return
        self._frames.append(frames)
        self._buffered += len(frames)
        self._more.set()
        if self._buffered > HIGH_WATER and not self._paused:
            self._paused = True
            if self._receiver is not None:
                self._receiver.paused()

    @property
    def direct(self) -> Callable[[bytes], None]:
        """Is `write`."""
        return self.write

    def write_all(self, frames: Sequence[bytes]) -> None:
        """Queue frames of several topics."""
        self.write(b"".join(frames))

    def close(self, code: int, reason: str) -> None:
        """Send a close frame after what was written."""
        if not self.closing:
            self._close = (code, reason)
            self._more.set()

    def pause_reading(self) -> None:
        """Leave what the client sends to the server."""
        self._readable.clear()

    def resume_reading(self) -> None:
        """Take messages again."""
        self._readable.set()

    async def readable(self) -> None:
        """Wait until messages may be taken."""
        await self._readable.wait()

    async def aclose(self) -> None:
        """End the sending task."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while not self._ended:
            while self._frames:
                frames = self._frames.popleft()
                for payload in frame_payloads(frames):
                    if not await self._deliver({"type": "websocket.send", "text": payload.decode()}):
                        return
                self._buffered -= len(frames)
                if self._paused and self._buffered <= LOW_WATER:
                    self._paused = False
                    if self._receiver is not None:
                        self._receiver.resumed()
            if self._close is not None:
                code, reason = self._close
                await self._deliver({"type": "websocket.close", "code": code, "reason": reason})
                return
            self._more.clear()
            await self._more.wait()

    async def _deliver(self, message: dict[str, Any]) -> bool:
        try:
            await self._send(message)
        except Exception:  # each server has its own exception for a client that is gone
            self._ended = True
            if self._receiver is not None:
                self._receiver.closed()
            return False
        return True

"""uvicorn's websocket protocol with a direct road to the socket.

Run uvicorn with ``ws="gateway.transport:GatewayProtocol"``. Under uvicorn's own classes, or another ASGI server, the
gateway works too, through ``websocket.send``.
"""

import asyncio
import contextlib
import socket
import sys
from typing import Any, ClassVar, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from gateway.writer import HIGH_WATER, LOW_WATER, Receiver

__all__ = ["DirectWriter", "GatewayProtocol"]

CLOSE_TIMEOUT = 1.0
"""Seconds a peer has to answer a close frame; then the socket is cut, whatever its buffer holds."""

NOTSENT_LOWAT = 16 * 1024
"""Bytes the kernel takes beyond what it could send; by default it takes megabytes before a slow reader shows."""


class DirectWriter:
    """The `gateway.writer.FrameWriter` of one connection of this server."""

    def __init__(self, protocol: "GatewayProtocol") -> None:
        """Make the writer of a protocol instance."""
        self._protocol = protocol
        self._transport = protocol.transport
        self._loop = protocol.loop
        self._receiver: Receiver | None = None

    def attach(self, receiver: Receiver, *, max_frame: int) -> None:
        """Pass messages straight to a receiver from here on, those first that came before."""
        self._receiver = receiver
        protocol = self._protocol
        # uvicorn's limit is 16 MiB by default, and only known to it before the application is.
        protocol.conn.max_message_size = max_frame
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        limit_unsent(self._transport)
        waiting = []
        while not protocol.queue.empty():
            waiting.append(protocol.queue.get_nowait())
        protocol.receiver = receiver
        if protocol.read_paused:
            protocol.read_paused = False
            self._transport.resume_reading()
        for message in waiting:
            if message["type"] == "websocket.receive":
                text = message.get("text")
                receiver.received(message.get("bytes") or b"" if text is None else text.encode(), text=text is not None)
            else:
                protocol.queue.put_nowait(message)

    @property
    def buffered(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self._transport.get_write_buffer_size()

    @property
    def closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._protocol.close_sent or self._transport.is_closing()

    def write(self, frames: bytes) -> None:
        """Write one or more frames; nothing happens once it is closing."""
        if not self._protocol.close_sent and not self._transport.is_closing():
            self._transport.write(frames)

    def close(self, code: int, reason: str) -> None:
        """Send a close frame after what was written; cut the socket if the peer does not answer in time."""
        if self.closing:
            return
        protocol = self._protocol
        protocol.conn.send_close(code, reason)
        self._transport.write(b"".join(protocol.conn.data_to_send()))
        protocol.close_sent = True
        protocol.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        if protocol.read_paused:
            protocol.read_paused = False
            self._transport.resume_reading()
        # `transport.close()` would wait for a buffer that a slow reader never drains.
        protocol.close_timer = self._loop.call_later(CLOSE_TIMEOUT, self._transport.abort)

    def pause_reading(self) -> None:
        """Leave what the client sends in the kernel."""
        if not self._protocol.read_paused and not self.closing:
            self._protocol.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take messages again."""
        if self._protocol.read_paused and not self._transport.is_closing():
            self._protocol.read_paused = False
            self._transport.resume_reading()


class GatewayProtocol(WebSocketsSansIOProtocol):
    """Offers a `DirectWriter` in ``scope["extensions"]["gateway.writer"]`` and drains at shutdown."""

    EXTENSION: ClassVar[str] = "gateway.writer"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make it as uvicorn does."""
        super().__init__(*args, **kwargs)
        self.receiver: Receiver | None = None
        self.conn.debug = False  # its log would hold every frame, tokens too

    def handle_connect(self, event: Request) -> None:
        """Offer the writer to the application."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            extensions = cast("dict[str, Any]", self.scope["extensions"])
            extensions[self.EXTENSION] = DirectWriter(self)

    def send_receive_event_to_app(self) -> None:
        """Pass a message to the receiver instead of a queue."""
        if self.receiver is None:
            super().send_receive_event_to_app()
            return
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if not self.close_sent:
            self.receiver.received(bytes(data), text=self.curr_msg_data_type == "text")

    def pause_writing(self) -> None:
        """Tell the receiver that the socket takes no more."""
        super().pause_writing()
        if self.receiver is not None:
            self.receiver.paused()

    def resume_writing(self) -> None:
        """Tell the receiver that the buffer has drained."""
        super().resume_writing()
        if self.receiver is not None:
            self.receiver.resumed()

    def handle_close(self, event: Frame) -> None:
        """Let go at once when the peer closes: nothing may follow its close frame."""
        super().handle_close(event)
        self._let_go()

    def handle_parser_exception(self) -> None:
        """Let go of a peer that breaks the websocket protocol, or sends more than the limit."""
        super().handle_parser_exception()
        self._let_go()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of a connection that broke."""
        super().connection_lost(exc)
        self._let_go()

    def shutdown(self) -> None:
        """Drain instead of closing every connection at once."""
        if self.receiver is None:
            super().shutdown()
        else:
            self.receiver.shutting_down()

    def _let_go(self) -> None:
        if self.receiver is not None:
            self.receiver.closed()


def limit_unsent(transport: asyncio.Transport) -> None:
    """Make a slow reader show after about 100 KB instead of after megabytes."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family == getattr(socket, "AF_UNIX", None):
        return
    option = getattr(socket, "TCP_NOTSENT_LOWAT", 0x201 if sys.platform == "darwin" else None)
    with contextlib.suppress(OSError):  # a system without it has lag that shows later, nothing worse
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, NOTSENT_LOWAT)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HIGH_WATER)

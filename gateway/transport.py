"""uvicorn's websocket protocol with a direct road to the socket.

Run uvicorn with ``ws="gateway.transport:GatewayProtocol"``. It makes the handshake; then the socket belongs to a
`DirectWriter` and uvicorn's objects of the connection are given back, its ASGI task too. Under uvicorn's own classes,
or another ASGI server, the gateway works too, through ``websocket.send``.
"""

import asyncio
import contextlib
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import ProtocolError
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Close
from websockets.http11 import Request

from gateway.deflate import SharedDeflate
from gateway.errors import DisconnectCode
from gateway.incoming import CLOSE, PING, PONG, TEXT, FrameReader, FrameRefusedError
from gateway.limits import Allowance
from gateway.writer import HIGH_WATER, LOW_WATER, Receiver

__all__ = ["DirectWriter", "GatewayProtocol"]

CLOSE_TIMEOUT = 1.0
"""Seconds a peer has to answer a close frame; then the socket is cut, whatever its buffer holds."""

NOTSENT_LOWAT = 16 * 1024
"""Bytes the kernel takes beyond what it could send; by default it takes megabytes before a slow reader shows."""

EARLY_BYTES = 64 * 1024
"""Bytes that a client may send before the application has accepted it; then it is not read from."""

CONTROL_RATE = 10
"""Pings and pongs of a client that are taken a second in the long run: each ping costs an answer."""

CONTROL_BURST = 1000
"""Pings and pongs at once."""

_DEFLATE = ServerPerMessageDeflateFactory(server_no_context_takeover=True, client_no_context_takeover=True)
_deflated = SharedDeflate()


class DirectWriter(asyncio.Protocol):
    """The `gateway.writer.FrameWriter` of one connection of this server, and its socket's protocol."""

    __slots__ = (
        "_close_sent",
        "_close_timer",
        "_closed",
        "_connections",
        "_controls",
        "_deflate_from",
        "_handshake",
        "_reader",
        "_reading",
        "_receiver",
        "_transport",
    )

    def __init__(self, handshake: "GatewayProtocol") -> None:
        """Make the writer that takes over from a handshake; it does nothing until `attach`."""
        self._handshake: GatewayProtocol | None = handshake
        self._transport: asyncio.Transport = handshake.transport
        self._connections: set[Any] = handshake.connections
        self._receiver: Receiver | None = None
        self._reader: FrameReader | None = None
        self._deflate_from: int = 0
        self._reading: bool = True
        self._closed: bool = False  # the receiver has let go
        self._close_timer: asyncio.TimerHandle | None = None
        self._close_sent: bool = False  # our close frame is out
        self._controls: Allowance | None = None  # made for who sends pings or pongs

    # FrameWriter

    def attach(self, receiver: Receiver, *, max_frame: int, deflate_from: int) -> None:
        """Take the socket over and pass messages to a receiver from here on, those first that came before."""
        handshake, self._handshake = self._handshake, None
        if handshake is None:
            raise RuntimeError("a connection has one receiver")
        self._receiver = receiver
        negotiated = bool(handshake.conn.extensions)
        self._deflate_from = deflate_from if negotiated else 0
        self._reader = FrameReader(max_message=max_frame, deflate=negotiated)
        early = handshake.hand_over(self)
        if handshake.disconnected:
            self._let_go()
            return
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        limit_unsent(self._transport)
        self._transport.set_protocol(self)
        if early:
            self.data_received(early)

    @property
    def buffered(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self._transport.get_write_buffer_size()

    @property
    def closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._close_sent or self._transport.is_closing()

    def write(self, frames: bytes) -> None:
        """Write one or more frames; nothing happens once it is closing."""
        if not self._close_sent and not self._transport.is_closing():
            if self._deflate_from and len(frames) >= self._deflate_from:
                frames = _deflated(frames, self._deflate_from)
            self._transport.write(frames)

    @property
    def direct(self) -> Callable[[bytes], None]:
        """The socket's own method where no frame is compressed; the receiver is told before the socket refuses it."""
        return self.write if self._deflate_from else self._transport.write

    def write_all(self, frames: Sequence[bytes]) -> None:
        """Write frames of several topics at once."""
        if not self._close_sent and not self._transport.is_closing():
            smallest = self._deflate_from
            if smallest:
                frames = [_deflated(each, smallest) if len(each) >= smallest else each for each in frames]
            self._transport.write(b"".join(frames))

    def close(self, code: int, reason: str) -> None:
        """Send a close frame after what was written; cut the socket if the peer does not answer in time."""
        if self.closing:
            return
        self._send_control(CLOSE, struct.pack("!H", code) + reason.encode())
        self._close_sent = True
        self.resume_reading()  # for the peer's own close frame
        # `transport.close()` would wait for a buffer that a slow reader never drains.
        self._close_timer = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT, self._transport.abort)

    def pause_reading(self) -> None:
        """Leave what the client sends in the kernel."""
        if self._reading and not self.closing:
            self._reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take messages again."""
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client."""
        reader, receiver = self._reader, self._receiver
        if reader is None or receiver is None:
            return
        try:
            for opcode, payload in reader.feed(data):
                if opcode == CLOSE:
                    self._peer_closes(payload)
                    return
                if self._close_sent or self._transport.is_closing():
                    continue  # only its close frame is waited for
                if opcode in {PING, PONG}:
                    if self._flooded():
                        self._break_off(DisconnectCode.BAD_REQUEST, "too many frames")
                        return
                    if opcode == PING:
                        self._send_control(PONG, payload)
                else:
                    receiver.received(payload, text=opcode == TEXT)
        except FrameRefusedError as error:
            self._break_off(error.code, error.reason)

    def pause_writing(self) -> None:
        """Tell the receiver that the socket takes no more."""
        if self._receiver is not None and not self._closed:
            self._receiver.paused()

    def resume_writing(self) -> None:
        """Tell the receiver that the buffer has drained."""
        if self._receiver is not None and not self._closed:
            self._receiver.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of a connection that ended."""
        self._connections.discard(self)
        if self._close_timer is not None:
            self._close_timer.cancel()
            self._close_timer = None
        self._let_go()

    # uvicorn's server

    def shutdown(self) -> None:
        """Drain instead of closing every connection at once."""
        if self._receiver is not None and not self._closed:
            self._receiver.shutting_down()
        elif not self._close_sent:
            self._transport.close()

    def _flooded(self) -> bool:
        if self._controls is None:
            self._controls = Allowance(rate=CONTROL_RATE, burst=CONTROL_BURST)
        return not self._controls.take(asyncio.get_running_loop().time())

    def _send_control(self, opcode: int, payload: bytes) -> None:
        self._transport.write(bytes((0x80 | opcode, len(payload))) + payload)

    def _peer_closes(self, payload: bytes) -> None:
        """Answer a close frame with its code (RFC 6455, 5.5.1) and let go: nothing may follow it."""
        if self._close_sent:
            self._transport.close()
            return
        try:
            if payload:
                Close.parse(payload).check()
        except ProtocolError as error:
            self._break_off(1002, str(error))
        except UnicodeDecodeError:
            self._break_off(1007, "a close reason is UTF-8")
        else:
            self._send_control(CLOSE, payload[:2])
            self._close_sent = True
            self._transport.close()
        self._let_go()

    def _break_off(self, code: int, reason: str) -> None:
        self.close(code, reason)
        self._reader = None  # what follows cannot be read any more
        self._let_go()

    def _let_go(self) -> None:
        if not self._closed and self._receiver is not None:
            self._closed = True
            self._receiver.closed()


class GatewayProtocol(WebSocketsSansIOProtocol):
    """Makes the handshake and offers a `DirectWriter` in ``scope["extensions"]["gateway.writer"]``."""

    EXTENSION: ClassVar[str] = "gateway.writer"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make it as uvicorn does."""
        super().__init__(*args, **kwargs)
        self.conn.debug = False  # its log would hold every frame, tokens too
        self.conn.available_extensions = [_DEFLATE]  # a window of its own for every message, so that frames are shared
        self._early = bytearray()

    def data_received(self, data: bytes) -> None:
        """Read the handshake; what follows it waits for the application."""
        if not self.handshake_initiated:
            super().data_received(data)
            return
        self._early += data
        if len(self._early) > EARLY_BYTES and not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def handle_connect(self, event: Request) -> None:
        """Offer the writer to the application."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            extensions = cast("dict[str, Any]", self.scope["extensions"])
            extensions[self.EXTENSION] = DirectWriter(self)

    def hand_over(self, writer: DirectWriter) -> bytes:
        """Leave the socket to a writer; give what came early."""
        if not self.disconnected:
            self.connections.discard(self)
            connections: set[Any] = self.connections
            connections.add(writer)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        # When the application returns, uvicorn closes what it believes to be its transport.
        self.transport = cast("asyncio.Transport", _HANDED_OVER)
        early = bytes(self._early)
        self._early.clear()
        return early


class _HandedOver:
    """A transport that is closed, for who handed its own over."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is left to close."""


_HANDED_OVER = _HandedOver()


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

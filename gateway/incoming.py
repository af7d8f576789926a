"""Frames that clients send: messages put together, control frames told apart (RFC 6455, 5; RFC 7692, 7.2.2) — pure."""

import zlib
from collections.abc import Iterator
from typing import Final

from websockets.frames import apply_mask  # type: ignore[attr-defined]  # C where it was built, else Python

__all__ = ["CLOSE", "PING", "PONG", "TEXT", "FrameReader", "FrameRefusedError"]

TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

PROTOCOL_ERROR: Final = 1002
BAD_PAYLOAD: Final = 1007
TOO_BIG: Final = 1009

FEW_FRAGMENTS: Final = 1000
SMALL_FRAGMENT: Final = 16
"""A message may have so many fragments, and one more for every so many bytes of the largest message."""

_CONTINUATION: Final = 0x0
_FIN: Final = 0x80
_COMPRESSED: Final = 0x40  # RSV1
_RESERVED: Final = 0x30
_MASKED: Final = 0x80
_TAIL: Final = b"\x00\x00\xff\xff"
"""What the sender of a compressed message leaves away at its end (RFC 7692, 7.2.1)."""

Message = tuple[int, bytes]


class FrameRefusedError(Exception):
    """The peer broke the protocol; the connection is to be closed with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        """Say what is wrong."""
        super().__init__(reason)
        self.code = code
        self.reason = reason


class FrameReader:
    """Cuts a client's bytes into whole messages and control frames; holds at most one message."""

    __slots__ = (
        "_buffer",
        "_compressed",
        "_deflate",
        "_fragments",
        "_max_message",
        "_message",
        "_opcode",
        "_wanted",
    )

    def __init__(self, *, max_message: int, deflate: bool) -> None:
        """Begin at the first byte after the handshake.

        Args:
            max_message: Bytes of the largest message that is taken, uncompressed.
            deflate: permessage-deflate was negotiated, with client_no_context_takeover.

        """
        self._max_message = max_message
        self._deflate = deflate
        self._buffer: bytearray | None = None  # an unfinished frame
        self._wanted: int = 0  # bytes it must have before looking at it again can help
        self._message: bytearray | None = None  # the fragments so far
        self._fragments: int = 0  # their number: empty ones cost time, too
        self._opcode: int = TEXT  # of the message that comes in fragments
        self._compressed: bool = False  # that message is

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take bytes and give what they complete: (`TEXT`, 2 for binary, `CLOSE`, `PING` or `PONG`; payload).

        Raises:
            FrameRefusedError: The next bytes break the protocol or a limit.

        """
        if self._buffer is not None:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return
            data = bytes(self._buffer)
            self._buffer = None
        start, end, wanted = 0, len(data), 2
        while end - start >= 2:
            first, length = data[start], data[start + 1]
            if not length & _MASKED:
                raise FrameRefusedError(PROTOCOL_ERROR, "a client's frames are masked")
            length &= 0x7F
            body = start + 6
            if length == 126:
                body = start + 8
                if end < body:
                    wanted = 8
                    break
                length = int.from_bytes(data[start + 2 : start + 4])
            elif length == 127:
                body = start + 14
                if end < body:
                    wanted = 14
                    break
                length = int.from_bytes(data[start + 2 : start + 10])
            self._check(first, length)
            if end < body + length:
                wanted = body + length - start
                break
            payload = apply_mask(data[body : body + length], data[body - 4 : body]) if length else b""
            start, wanted = body + length, 2
            message = self._message_of(first, payload)
            if message is not None:
                yield message
        if start < end:
            self._buffer = bytearray(data[start:] if start else data)
            self._wanted = wanted

    def _check(self, first: int, length: int) -> None:
        """Refuse by the header alone what must not even be buffered."""
        opcode = first & 0x0F
        if first & _RESERVED or (first & _COMPRESSED and (not self._deflate or opcode not in {TEXT, BINARY})):
            raise FrameRefusedError(PROTOCOL_ERROR, "reserved bits are set")
        if opcode in {CLOSE, PING, PONG}:
            if length > 125 or not first & _FIN:
                raise FrameRefusedError(PROTOCOL_ERROR, "a control frame is whole and has at most 125 bytes")
            return
        if opcode not in {_CONTINUATION, TEXT, BINARY}:
            raise FrameRefusedError(PROTOCOL_ERROR, f"no frame has opcode {opcode}")
        if (opcode == _CONTINUATION) == (self._message is None):
            raise FrameRefusedError(PROTOCOL_ERROR, "fragments of a message follow each other")
        if opcode == _CONTINUATION and self._fragments >= FEW_FRAGMENTS + self._max_message // SMALL_FRAGMENT:
            raise FrameRefusedError(TOO_BIG, "a message has too many fragments")
        if length + (0 if self._message is None else len(self._message)) > self._max_message:
            raise self._too_big()

    def _message_of(self, first: int, payload: bytes) -> Message | None:
        """Give the message that a frame is or completes."""
        opcode = first & 0x0F
        if opcode >= CLOSE:
            return opcode, payload
        if self._message is None:
            if first & _FIN:
                return opcode, self._inflated(payload) if first & _COMPRESSED else payload
            self._opcode, self._compressed = opcode, bool(first & _COMPRESSED)
            self._message = bytearray(payload)
            self._fragments = 1
            return None
        self._fragments += 1
        self._message += payload
        if not first & _FIN:
            return None
        whole, self._message = bytes(self._message), None
        return self._opcode, self._inflated(whole) if self._compressed else whole

    def _inflated(self, data: bytes) -> bytes:
        inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        try:
            # One byte more than may be: then a bomb stops here instead of in memory.
            message = inflater.decompress(data + _TAIL, self._max_message + 1)
        except zlib.error as error:
            raise FrameRefusedError(BAD_PAYLOAD, "a compressed message is broken") from error
        if len(message) > self._max_message:
            raise self._too_big()
        return message

    def _too_big(self) -> FrameRefusedError:
        return FrameRefusedError(TOO_BIG, f"a message may have {self._max_message} bytes")

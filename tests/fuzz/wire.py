"""The websocket from a client's side, without a library that would keep the rules."""

import asyncio
import base64
import contextlib
import os
import struct
import zlib
from collections.abc import AsyncIterator
from typing import Final

__all__ = ["BINARY", "CLOSE", "CONTINUATION", "PING", "PONG", "TEXT", "Peer", "frame", "packed", "peer"]

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

Frame = tuple[int, bytes, int]
"""Opcode, payload as the application has it, the first byte as it was sent."""

DEFLATE: Final = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    bits: int = 0,
    masked: bool = True,
    length: int | None = None,
) -> bytes:
    """Make a frame; ``bits`` are the reserved ones, ``length`` is what it says of itself."""
    size = len(payload) if length is None else length
    head = bytes((0x80 * fin | bits | opcode,))
    mark = 0x80 * masked
    if size < 126:
        head += bytes((mark | size,))
    elif size < 65536:
        head += bytes((mark | 126,)) + struct.pack("!H", size)
    else:
        head += bytes((mark | 127,)) + struct.pack("!Q", size)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    key = int.from_bytes(mask * (len(payload) // 4 + 1))
    padded = payload + bytes(-len(payload) % 4 or 4)
    return head + mask + (int.from_bytes(padded) ^ key).to_bytes(len(padded))[: len(payload)]


def packed(payload: bytes, *, wbits: int = 15, level: int = 6) -> bytes:
    """Compress a message (RFC 7692, 7.2.1)."""
    deflater = zlib.compressobj(level, wbits=-wbits)
    return (deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]


class Peer:
    """One connection, its handshake made."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, extensions: str) -> None:
        self.reader = reader
        self.writer = writer
        self.extensions = extensions
        self.ended = False

    async def send(self, data: bytes) -> None:
        """Send, as far as the server takes it."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def frame(self) -> Frame | None:
        """Give the server's next frame, which has to be a right one; None at the end of the stream."""
        try:
            first, size = await self.reader.readexactly(2)
            assert not size & 0x80, "a server's frames are not masked"
            if size == 126:
                size = int.from_bytes(await self.reader.readexactly(2))
                assert size >= 126
            elif size == 127:
                size = int.from_bytes(await self.reader.readexactly(8))
                assert size >= 65536
            payload = await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended = True
            return None
        opcode = first & 0x0F
        assert opcode in {CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG}
        assert not first & 0x30
        if first & 0x40:
            assert self.extensions, "a compressed frame that was not negotiated"
            assert opcode in {TEXT, BINARY}
            payload = zlib.decompressobj(wbits=-15).decompress(payload + b"\x00\x00\xff\xff")
        return opcode, payload, first

    async def rest(self) -> list[Frame]:
        """Give all frames up to the end of the stream."""
        found = []
        while (one := await self.frame()) is not None:
            found.append(one)
        return found


@contextlib.asynccontextmanager
async def peer(port: int, *, extensions: str = "", path: str = "/connection/websocket") -> AsyncIterator[Peer]:
    """Connect and make the handshake."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        key = base64.b64encode(os.urandom(16)).decode()
        offer = f"Sec-WebSocket-Extensions: {extensions}\r\n" if extensions else ""
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{offer}\r\n".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 101 "), head
        agreed = [
            line.partition(": ")[2] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-ext")
        ]
        yield Peer(reader, writer, agreed[0] if agreed else "")
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

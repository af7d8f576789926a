"""A websocket reader cheap enough to have a thousand of in one process: it keeps frames now and folds them later."""

import asyncio
import json
import struct
from typing import Any

from gateway.mirror import Mirror
from gateway.types import Publication

HANDSHAKE = (
    b"GET /connection/websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def masked(text: str) -> bytes:
    """Frame a text as clients must: masked, here with zeros."""
    payload = text.encode()
    length = len(payload)
    head = struct.pack("!BB", 0x81, 0x80 | length) if length < 126 else struct.pack("!BBH", 0x81, 0xFE, length)
    return head + bytes(4) + payload


class Reader(asyncio.Protocol):
    """One mirror reader of one topic.

    Attributes:
        mirror: What was folded by `settle`.
        lost: Set when the connection ended.

    """

    def __init__(self, port: int, topic: str) -> None:
        self.mirror = Mirror(topic)
        self.lost = asyncio.Event()
        self._port = port
        self._topic = topic
        self._subscribed: asyncio.Future[None] | None = None
        self._buffer = bytearray()
        self._commands = b""
        self._frames: list[bytes] = []
        self._open = False
        self._parts: list[str] = []
        self._transport: asyncio.Transport | None = None

    async def connect(self) -> None:
        """Connect and subscribe, from the mirror's position if it has one; returns when the reply has come."""
        loop = asyncio.get_running_loop()
        self._buffer, self._open, self._parts = bytearray(), False, []
        self._subscribed = loop.create_future()
        self.lost = asyncio.Event()
        await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        await self._subscribed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        subscribe: dict[str, Any] = {"channel": self._topic, "data": {"mirror": True}}
        if self.mirror.epoch:
            subscribe |= {"recover": True, "epoch": self.mirror.epoch, "offset": self.mirror.offset}
        commands = json.dumps({"id": 1, "connect": {}}) + "\n" + json.dumps({"id": 2, "subscribe": subscribe})
        self._commands = masked(commands)
        transport.write(HANDSHAKE)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()
        if self._subscribed is not None and not self._subscribed.done():
            self._subscribed.set_exception(ConnectionError("closed before the subscribe reply"))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if not self._open:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            assert buffer.startswith(b"HTTP/1.1 101"), bytes(buffer[:200])
            del buffer[: end + 4]
            self._open = True
            assert self._transport is not None
            self._transport.write(self._commands)
        at = 0
        while len(buffer) >= at + 2:
            length, head = buffer[at + 1], 2
            if length == 126:
                head = 4
            elif length == 127:
                head = 10
            if len(buffer) < at + head:
                break
            if head > 2:
                length = int.from_bytes(buffer[at + 2 : at + head])
            if len(buffer) < at + head + length:
                break
            self._take(buffer[at] & 15, bytes(buffer[at + head : at + head + length]))
            at += head + length
        del buffer[:at]

    def _take(self, opcode: int, payload: bytes) -> None:
        assert len(payload) <= 128 * 1024
        if opcode != 1:
            return
        if payload == b"{}":
            assert self._transport is not None
            self._transport.write(masked("{}"))
            return
        self._frames.append(payload)
        if self._subscribed is not None and not self._subscribed.done() and b'"subscribe":' in payload:
            self._subscribed.set_result(None)

    def drop(self) -> None:
        """Cut the connection without a close."""
        if self._transport is not None:
            self._transport.abort()

    def settle(self) -> Mirror:
        """Fold what has come since the last time."""
        frames, self._frames = self._frames, []
        for frame in frames:
            for line in frame.split(b"\n"):
                self._fold(json.loads(line))
        return self.mirror

    def _fold(self, message: dict[str, Any]) -> None:
        assert "error" not in message, message
        if "subscribe" in message:
            reply = message["subscribe"]
            snapshot = (reply.get("data") or {}).get("snapshot")
            if snapshot is None:
                assert reply["recovered"] is True
                self.mirror.resume(reply["epoch"])
            elif "parts" not in snapshot:
                self.mirror = Mirror.restore(snapshot)
            for publication in reply.get("publications") or ():
                self._apply(publication)
        elif "pub" in message.get("push", {}):
            publication = message["push"]["pub"]
            data = publication["data"]
            if data.get("type") != "snapshot":
                self._apply(publication)
            elif "parts" not in data:
                self.mirror = Mirror.restore(data)
            else:
                self._parts.append(data["text"])
                if data["part"] == data["parts"]:
                    self.mirror = Mirror.restore(json.loads("".join(self._parts)))
                    self._parts = []

    def _apply(self, raw: dict[str, Any]) -> None:
        first = int(raw["tags"]["from"]) if "tags" in raw else None
        publication = Publication(offset=raw["offset"], data=raw["data"], first=first)
        assert self.mirror.apply(publication) == "applied", (self.mirror.offset, raw)

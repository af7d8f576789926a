"""How the Python baselines are fed: lines of a TCP connection, or the channels of Redis that a gateway hears."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

import hiredis

__all__ = ["Channels", "Lines", "frame"]


def frame(payload: bytes) -> bytes:
    """Make an unmasked text frame."""
    size = len(payload)
    head = bytes([0x81, size]) if size < 126 else b"\x81\x7e" + size.to_bytes(2)
    return (head if size < 65536 else b"\x81\x7f" + size.to_bytes(8)) + payload


class Lines(asyncio.Protocol):
    """Gives each line that a publisher sends over a plain connection."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._heard(line)


class Channels(asyncio.Protocol):
    """Gives what is published on channels, as (channel, what stands below a gateway's header line)."""

    def __init__(self, url: str, heard: Callable[[bytes, bytes], None]) -> None:
        self._address = urlsplit(url)
        self._heard = heard
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_connection(
            lambda: self, self._address.hostname, self._address.port or 6379
        )

    def subscribe(self, channel: str) -> None:
        assert self._transport is not None
        self._transport.write(hiredis.pack_command(("SUBSCRIBE", channel)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's are of no common class
        if self._address.password:
            self._transport.write(hiredis.pack_command(("AUTH", self._address.password)))

    def data_received(self, data: bytes) -> None:
        # hiredis moves what is left to the front after each answer: large reads cost their square.
        for start in range(0, len(data), 16384):
            self._reader.feed(data[start : start + 16384])
            while (item := self._reader.gets()) is not False:
                if type(item) is list and item[0] == b"message":
                    payload = item[2]
                    self._heard(item[1], payload[payload.find(b"\n") + 1 :])

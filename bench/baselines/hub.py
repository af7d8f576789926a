"""The bare hub: asyncio protocols for the websockets and for Redis, `hiredis.Reader`, direct writes, and nothing else.

    python -m bench.baselines.hub PORT URL asyncio|uvloop

A reader of ``/NUMBER?topics=T&step=S&each=E`` hears the channels ``gw:{bench:NUMBER}`` of E topics. What arrives in one
loop tick goes out in one write a connection.
"""

import asyncio
import base64
import hashlib
import re
import sys

import uvloop

from bench.baselines.feed import Channels, frame

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3


class Hub:
    def __init__(self, url: str) -> None:
        self.channels = Channels(url, self.heard)
        self.readers: dict[bytes, list[Connection]] = {}
        self.dirty: dict[Connection, list[bytes]] = {}

    def enter(self, channel: str, connection: "Connection") -> None:
        readers = self.readers.get(channel.encode())
        if readers is None:
            readers = self.readers[channel.encode()] = []
            self.channels.subscribe(channel)
        readers.append(connection)

    def heard(self, channel: bytes, payload: bytes) -> None:
        if not self.dirty:
            asyncio.get_running_loop().call_soon(self.flush)
        frames = frame(payload)
        for connection in self.readers[channel]:
            waiting = self.dirty.get(connection)
            if waiting is None:
                self.dirty[connection] = [frames]
            else:
                waiting.append(frames)

    def flush(self) -> None:
        dirty, self.dirty = self.dirty, {}
        for connection, frames in dirty.items():
            connection.write(frames[0] if len(frames) == 1 else b"".join(frames))


class Connection(asyncio.Protocol):
    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.request += data
        if not self.request.endswith(b"\r\n\r\n"):
            return
        text, self.request = self.request.decode(), b""
        path = re.match(r"GET /(\d+)\?topics=(\d+)&step=(\d+)&each=(\d+) ", text)
        key = re.search(r"Sec-WebSocket-Key: (\S+)", text)
        assert path is not None
        assert key is not None
        accept = base64.b64encode(hashlib.sha1(key[1].encode() + GUID, usedforsecurity=False).digest())
        self.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        first, topics, step, each = (int(number) for number in path.groups())
        for turn in range(each):
            self.hub.enter(f"gw:{{bench:{(first + turn * step) % topics:05}}}", self)


async def main() -> None:
    hub = Hub(sys.argv[2])
    await hub.channels.connect()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(hub), "127.0.0.1", int(sys.argv[1]), backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main()) if sys.argv[3] == "uvloop" else asyncio.run(main())

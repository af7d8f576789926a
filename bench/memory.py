"""What a reader costs: memory of the gateway, and the kernel's TCP memory beside it.

    python -m bench.memory [--readers 5000] [--topics 50] [--megabytes 8] [--silent 10]

Readers are idle first. Then the same traffic goes to gateways whose readers all read, and to ones of whose readers some
never do; closing them as slow is put off, so that the worst is seen. TCP memory is the whole machine's
(/proc/net/sockstat), both ends of every connection included. A client's buffer is 16 KiB here, as it is not the
gateway's to bound. It fails where the gateway with silent readers takes more than it took with all of them idle plus
10%, and 100 KB for each silent one.
"""

import argparse
import asyncio
import json
import resource
import selectors
import socket
import struct
import sys
import threading
from pathlib import Path

import psutil

from gateway.broker.embedded import EmbeddedServer
from gateway.broker.port import AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.types import START, Topic, new_id
from tests.e2e.processes import Gateway

ALLOWED, ALLOWED_EACH = 1.1, 100_000
"""Of the idle gateway's memory, and bytes for each reader that never reads."""
CLIENT_BUFFER = 16 * 1024
EVENT_BYTES = 1000
BATCH = 50
HANDSHAKE = (
    "GET /connection/websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def tcp_bytes() -> int:
    for line in Path("/proc/net/sockstat").read_text("ascii").splitlines():
        if line.startswith("TCP:"):
            return int(line.split()[line.split().index("mem") + 1]) * resource.getpagesize()
    raise SystemExit("bench.memory: /proc/net/sockstat has no TCP line")


class Readers:
    """Plain sockets, each a mirror reader of one topic; all but the silent ones are read from."""

    def __init__(self, port: int, *, count: int, silent: int, topics: list[str]) -> None:
        self._sockets: list[socket.socket] = []
        self._selector = selectors.DefaultSelector()
        self._ended = False
        for number in range(count):
            reader = self._open(port, topics[number % len(topics)])
            self._sockets.append(reader)
            if number >= silent:
                reader.setblocking(False)
                self._selector.register(reader, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()

    def _open(self, port: int, topic: str) -> socket.socket:
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CLIENT_BUFFER)
        reader.connect(("127.0.0.1", port))
        reader.sendall(HANDSHAKE.encode())
        self._until(reader, b"\r\n\r\n")
        subscribe = {"id": 2, "subscribe": {"channel": topic, "data": {"mirror": True}}}
        text = f"{json.dumps({'id': 1, 'connect': {}})}\n{json.dumps(subscribe)}".encode()
        reader.sendall(struct.pack("!BBHI", 0x81, 0x80 | 126, len(text), 0) + text)  # masked with zeros
        self._until(reader, b'"subscribe":')
        return reader

    def _until(self, reader: socket.socket, what: bytes) -> None:
        data = b""
        while what not in data:
            piece = reader.recv(65536)
            if not piece:
                raise SystemExit(f"bench.memory: the gateway closed before {what!r}")
            data += piece

    def _drain(self) -> None:
        while not self._ended:
            for key, _ in self._selector.select(timeout=0.1):
                if not isinstance(key.fileobj, socket.socket):
                    continue
                try:
                    while key.fileobj.recv(1 << 18):
                        pass
                    self._selector.unregister(key.fileobj)  # the gateway closed it
                except BlockingIOError:
                    continue

    @property
    def reading(self) -> int:
        return len(self._selector.get_map())

    def close(self) -> None:
        self._ended = True
        self._thread.join()
        for reader in self._sockets:
            reader.close()


async def publish(redis_url: str, topics: list[str], megabytes: float) -> None:
    broker = RedisBroker(redis_url)
    data = json.dumps({"type": "bench.message", "text": "x" * (EVENT_BYTES - 40)}).encode()
    entries = [Entry(kind="h", type="bench.message", data=data)] * BATCH
    for number in range(round(megabytes * 1e6 / EVENT_BYTES / BATCH)):
        topic = Topic(topics[number % len(topics)])
        await broker.append(topic, AppendRequest(writer=f"p/{new_id()}", seq="1", entries=entries), position=START)
        await asyncio.sleep(0.01)
    await broker.aclose()


async def settled(server: psutil.Process) -> int:
    """Wait until the process's memory stands still."""
    last = -1
    while last != (rss := server.memory_info().rss):
        last = rss
        await asyncio.sleep(1)
    return rss


async def measure(
    redis_url: str, *, readers: int, silent: int, topics: list[str], megabytes: float
) -> tuple[int, int, int, int, int]:
    """Give the gateway's and the kernel's bytes that the readers take, idle and busy; last its own without them."""
    gateway = Gateway(redis_url, "--ping-interval", "3600", "--slow-timeout", "3600")
    await gateway.start()
    try:
        assert gateway.process is not None
        server = psutil.Process(gateway.process.pid)
        rss, tcp = await settled(server), tcp_bytes()
        connected = await asyncio.to_thread(Readers, gateway.port, count=readers, silent=silent, topics=topics)
        try:
            idle = (await settled(server) - rss, tcp_bytes() - tcp)
            if megabytes:
                await publish(redis_url, topics, megabytes)
            busy = (await settled(server) - rss, tcp_bytes() - tcp)
            assert connected.reading == readers - silent, "the gateway closed a reader"
        finally:
            await asyncio.to_thread(connected.close)
    finally:
        await gateway.stop()
    return (*idle, *busy, rss)


async def run(options: argparse.Namespace) -> None:
    silent = options.readers * options.silent // 100
    topics = [f"bench:memory:{number}" for number in range(options.topics)]
    async with EmbeddedServer() as store:
        await publish(store.url, topics, len(topics) * EVENT_BYTES * BATCH / 1e6)
        sizes = {"readers": options.readers, "topics": topics, "megabytes": options.megabytes}
        rss, tcp, all_rss, all_tcp, _ = await measure(store.url, silent=0, **sizes)
        idle_rss, _, some_rss, some_tcp, none = await measure(store.url, silent=silent, **sizes)
    each = 1024 * options.readers
    rows = [
        ("idle", rss, tcp),
        (f"after {options.megabytes:g} MB, all read", all_rss, all_tcp),
        (f"after {options.megabytes:g} MB, {silent} never read", some_rss, some_tcp),
    ]
    for name, process, kernel in rows:
        line = f"{process / each:7.1f} KiB of the gateway's, {kernel / each:7.1f} KiB of the kernel's a reader"
        sys.stdout.write(f"{name:36} {line}\n")
    if silent:
        more = (some_rss - all_rss) / silent / 1024, (some_tcp - all_tcp) / silent / 1024
        sys.stdout.write(
            f"a reader that never reads: {more[0]:+.1f} KiB of the gateway's, {more[1]:+.1f} KiB of the kernel's\n"
        )
    total, idle = none + some_rss, none + idle_rss
    bar = ALLOWED * idle + ALLOWED_EACH * silent
    sys.stdout.write(
        f"the gateway: {idle / 1e6:.1f} MB with all idle, {total / 1e6:.1f} MB with {silent} silent; "
        f"at most {bar / 1e6:.1f} MB allowed\n"
    )
    if total > bar:
        raise SystemExit("bench.memory: silent readers cost more than is allowed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=5000, help="connections, each on one topic (default: 5000)")
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--megabytes", type=float, default=8, help="of events, all topics together (default: 8)")
    parser.add_argument("--silent", type=int, default=10, help="per cent of the readers that never read (default: 10)")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(run(options))


if __name__ == "__main__":
    main()

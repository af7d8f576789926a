"""Readers that read nothing while many others read: what the others, the gateway and the kernel notice of them.

    python -m bench.silent [--seconds 60] [--readers 1000] [--silent 50]

One run streams to all on one topic. Latency (from the run's call to the bytes at the reader), the gateway's memory and
the kernel's TCP memory (/proc/net/sockstat, the whole machine's, both ends) are measured before, while and after some
readers stop reading; each stands beside what it was before. The gateway closes the silent ones as slow; they wake at
the end of --seconds, come back by themselves, and must hold the topic's state exactly. The long form is --seconds 600.
"""

import argparse
import array
import asyncio
import contextlib
import fcntl
import multiprocessing
import re
import resource
import socket
import statistics
import sys
import termios
import time
from multiprocessing.synchronize import Event
from typing import NamedTuple

import psutil

from bench.memory import CLIENT_BUFFER, Readers, tcp_bytes
from gateway.broker.embedded import EmbeddedServer
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.run import Run
from tests.e2e.processes import Gateway
from tests.e2e.reader import Reader

TOPIC = "bench:silent"
TIMED = 20
"""Readers, among those that read, whose latency is measured."""
PAUSE = 0.05
"""Seconds between two deltas."""
DELTA_BYTES = 1000
DELTAS = 50
"""Of one message."""
QUIET = 0.25
"""The share of --seconds that is measured before, and again after."""
SLOW = 15.0
"""Seconds after which the gateway gives up a reader whose buffer does not shrink."""
RING_BYTES = 1 << 20
WARM_UP = RING_BYTES / (DELTA_BYTES / PAUSE)
"""Seconds."""
_SENT = re.compile(rb"@(\d+)@")


class Timed(Reader):
    """A reader that notes how old each delta is when it arrives."""

    ages: list[float]

    def _take(self, opcode: int, payload: bytes) -> None:
        now = time.monotonic_ns()
        self.ages += [(now - int(sent)) / 1e6 for sent in _SENT.findall(payload)]
        self._frames.clear()  # the topic's state is of no use to it
        super()._take(opcode, payload)


class Silent(Reader):
    """A reader that stops reading, and wakes later; its own buffer is small, as that is not the gateway's to bound."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CLIENT_BUFFER)
        super().connection_made(transport)

    def sleep(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()

    @property
    def unread(self) -> int:
        """The bytes that lie in its own socket."""
        assert self._transport is not None
        held = array.array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.FIONREAD, held)
        return held[0]

    def wake(self) -> None:
        """Read again what is there; the end of the connection is the last of it, where the gateway gave it up."""
        assert self._transport is not None
        self._transport.resume_reading()

    async def reach(self, offset: int) -> None:
        """Stand at an offset, over as many connections as that takes."""
        while self.settle().offset < offset:
            if self.lost.is_set():
                await self.connect()
            await asyncio.sleep(0.05)


class Measured(NamedTuple):
    """What one span of time showed: latencies in ms, memory in bytes."""

    median: float
    p99: float
    worst: float
    process: int
    kernel: int


def drain(port: int, count: int, ready: Event, over: Event) -> None:
    """Read for so many readers, in a process of its own."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    readers = Readers(port, count=count, silent=0, topics=[TOPIC])
    ready.set()
    over.wait()
    if readers.reading != count:
        raise SystemExit("bench.silent: the gateway closed a reader that reads")
    readers.close()


async def stream(run: Run) -> None:
    """Say something all the time."""
    number = 0
    while True:
        said = []
        for _ in range(DELTAS):
            said.append(f"@{time.monotonic_ns()}@".ljust(DELTA_BYTES, "."))
            await run.delta(said[-1])
            await asyncio.sleep(PAUSE)
        await run.add_message(Message.assistant(f"message {number}"))
        number += 1


async def measure(timed: list[Timed], server: psutil.Process, seconds: float) -> Measured:
    """Look for so long."""
    for reader in timed:
        reader.ages = []
    process, kernel = [], []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        process.append(server.memory_info().rss)
        kernel.append(tcp_bytes())
        await asyncio.sleep(0.2)
    ages = sorted(age for reader in timed for age in reader.ages)
    if not ages:
        raise SystemExit("bench.silent: nothing arrived")
    return Measured(
        median=statistics.median(ages),
        p99=ages[len(ages) * 99 // 100],
        worst=ages[-1],
        process=round(statistics.median(process)),
        kernel=round(statistics.median(kernel)),
    )


def connections(server: psutil.Process, port: int) -> int:
    """Count the gateway's open connections."""
    return sum(
        found.status == psutil.CONN_ESTABLISHED and found.laddr.port == port for found in server.net_connections("tcp")
    )


async def woken(silent: list[Silent], gateway: Gateway, run: Run) -> None:
    """Wake the silent ones, and see that each holds the topic's state."""
    for sleeper in silent:
        sleeper.wake()
    await run.flush()
    await asyncio.gather(*(reader.reach(run.position.offset) for reader in silent))
    state = await gateway.topic(TOPIC)
    wrong = sum(reader.settle().snapshot() != state for reader in silent)
    if wrong:
        raise SystemExit(f"bench.silent: {wrong} of {len(silent)} hold another state than the topic")


async def bench(options: argparse.Namespace, gateway: Gateway, publisher: Publisher) -> None:
    assert gateway.process is not None
    server = psutil.Process(gateway.process.pid)
    context = multiprocessing.get_context("spawn")
    ready, over = context.Event(), context.Event()
    draining = context.Process(target=drain, args=(gateway.port, options.readers - TIMED, ready, over))
    draining.start()
    timed = [Timed(gateway.port, TOPIC) for _ in range(TIMED)]
    silent = [Silent(gateway.port, TOPIC) for _ in range(options.silent)]
    for reader in timed:
        reader.ages = []
    try:
        await asyncio.to_thread(ready.wait)
        await asyncio.gather(*(reader.connect() for reader in (*timed, *silent)))
        async with publisher.run(TOPIC, agent="bench") as run:
            streaming = asyncio.create_task(stream(run))
            await measure(timed, server, WARM_UP)
            rows = {"before": await measure(timed, server, options.seconds * QUIET)}
            for sleeper in silent:
                sleeper.sleep()
            rows["while they are silent"] = await measure(timed, server, options.seconds)
            left = connections(server, gateway.port) - options.readers
            rows["after"] = await measure(timed, server, options.seconds * QUIET)
            unread = sum(sleeper.unread for sleeper in silent)
            streaming.cancel()
            await asyncio.wait([streaming])
            await woken(silent, gateway, run)
    finally:
        over.set()
        await asyncio.to_thread(draining.join)
    show(rows)
    print(f"{unread / 1024:.0f} KiB lie unread in the sockets of the silent ones themselves")
    print(f"{options.silent - left} of {options.silent} silent readers closed as slow; all of them exact once awake")


def show(rows: dict[str, Measured]) -> None:
    first = rows["before"]
    print(f"{'':22} {'median ms':>14} {'p99 ms':>14} {'worst ms':>10} {'gateway MiB':>18} {'TCP KiB':>18}")
    for name, row in rows.items():
        ratios = [row[at] / first[at] for at in (0, 1, 3, 4)]
        print(
            f"{name:22} {row.median:6.2f} ({ratios[0]:.2f}x) {row.p99:6.1f} ({ratios[1]:.2f}x) {row.worst:10.1f} "
            f"{row.process / 2**20:10.1f} ({ratios[2]:.2f}x) {row.kernel / 1024:10.0f} ({ratios[3]:.2f}x)"
        )


async def main(options: argparse.Namespace) -> None:
    async with EmbeddedServer() as store:
        # Pings are put off: it is what cannot be written that closes the silent ones.
        # The ring of recent events is full before anything is measured, or it would be taken for theirs.
        limits = ("--slow-timeout", str(SLOW), "--ring-bytes", str(RING_BYTES))
        gateway = Gateway(store.url, "--ping-interval", "3600", *limits)
        await gateway.start()
        try:
            async with Publisher(store.url, flush_interval=0) as publisher:
                await bench(options, gateway, publisher)
        finally:
            await gateway.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="for which the silent ones read nothing (60)")
    parser.add_argument("--readers", type=int, default=1000, help="others, which read (1000)")
    parser.add_argument("--silent", type=int, default=50, help="readers that read nothing (50)")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(parser.parse_args(sys.argv[1:])))

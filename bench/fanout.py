"""One topic, many readers: messages delivered per second of the gateway's CPU, against a C loop of plain sends.

    python -m bench.fanout [--readers 1000] [--seconds 5] [--rounds 3]

Both servers are measured in turn, in the same run, with the same C readers. The gateway is the product as it is
served: real Valkey in front, real sessions behind. Per core means per second of the server process's own CPU time,
so that the publisher, Valkey and the readers, which share the machine, do not count.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from gateway.broker.embedded import EmbeddedServer
from gateway.broker.port import AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.types import START, Topic, new_id
from tests.e2e.processes import Gateway

HERE = Path(__file__).parent
BYTES = 200
TOPIC = Topic("bench:fanout")
BATCH = 8


def compile_tools(folder: Path) -> dict[str, Path]:
    """Build the C programs.

    Raises:
        SystemExit: There is no gcc.

    """
    if shutil.which("gcc") is None:
        raise SystemExit("bench.fanout: gcc is needed for the baseline and the readers (apt-get install gcc)")
    tools = {}
    for name in ("floor", "readers"):
        tools[name] = folder / name
        source = HERE / f"{name}.c"
        subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", "-o", tools[name], source], check=True)
    return tools


def pinned(core: int, *command: str | Path) -> list[str | Path]:
    """Keep a process on one core, where the machine has two and the means to."""
    if (os.cpu_count() or 1) < 2 or shutil.which("taskset") is None:
        return list(command)
    return ["taskset", "-c", str(core), *command]


class Readers:
    """The C readers, connected."""

    def __init__(self, command: list[str | Path]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self._ask(None) != "ready":
            raise SystemExit("bench.fanout: the readers could not connect")

    def _ask(self, question: str | None) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if question is not None:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def count(self, seconds: float) -> int:
        """Count the messages that arrive in this time."""
        return int(self._ask(str(seconds)).split()[0])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def measure(readers: Readers, server: psutil.Process, seconds: float) -> tuple[float, float, float]:
    """Give messages a second, messages a second of the server's CPU, and the share of a core it used."""
    readers.count(1)
    before = cpu(server)
    messages = readers.count(seconds)
    used = cpu(server) - before
    return messages / seconds, messages / used, used / seconds


def floor(tools: dict[str, Path], *, readers: int, seconds: float, port: int) -> tuple[float, float, float]:
    command = pinned(0, tools["floor"], str(port), str(readers), str(BYTES))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
        try:
            asyncio.run(asyncio.sleep(0.3))
            connected = Readers(pinned(1, tools["readers"], str(port), str(readers)))
            result = measure(connected, psutil.Process(server.pid), seconds)
            connected.close()
        finally:
            server.kill()
    return result


async def publish(redis_url: str, stop: asyncio.Event) -> None:
    """Append as fast as the store takes it, eight events a call, two calls in flight; at least once."""
    text = ("the quick brown fox jumps over lazy dogs and " * 5)[: BYTES - 60]
    data = json.dumps({"type": "bench.message", "text": "^" + text}).encode()
    broker = RedisBroker(redis_url, max_bytes=1 << 40)
    entries = [Entry(kind="h", type="bench.message", data=data)] * BATCH

    async def lane() -> None:
        while True:
            await broker.append(TOPIC, AppendRequest(writer=f"p/{new_id()}", seq="1", entries=entries), position=START)
            if stop.is_set():
                return

    await asyncio.gather(lane(), lane())
    await broker.aclose()


async def product(tools: dict[str, Path], *, readers: int, seconds: float) -> tuple[float, float, float]:
    commands = [{"id": 1, "connect": {}}, {"id": 2, "subscribe": {"channel": TOPIC}}]
    first = "\n".join(json.dumps(command) for command in commands)
    stop = asyncio.Event()
    async with EmbeddedServer() as store:
        gateway = Gateway(store.url)
        await gateway.start()
        try:
            assert gateway.process is not None
            server = psutil.Process(gateway.process.pid)
            server.cpu_affinity([0])
            command = pinned(1, tools["readers"], str(gateway.port), str(readers), first, '"subscribe":')
            # A stock reader of a topic that nobody has written must subscribe again at its first event.
            stop.set()
            await publish(store.url, stop)
            connected = await asyncio.to_thread(Readers, command)
            stop.clear()
            publisher = asyncio.create_task(publish(store.url, stop))
            result = await asyncio.to_thread(measure, connected, server, seconds)
            connected.close()
            stop.set()
            await publisher
        finally:
            await gateway.stop()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tools = compile_tools(Path(folder))
        rounds = []
        for number in range(options.rounds):
            base = floor(tools, readers=options.readers, seconds=options.seconds, port=Gateway("").port)
            ours = asyncio.run(product(tools, readers=options.readers, seconds=options.seconds))
            rounds.append((base, ours))
            for name, (rate, per_core, busy) in (("C loop of sends", base), ("gateway", ours)):
                line = f"{rate / 1e6:6.3f} M delivered/s, {per_core / 1e6:6.3f} M per core, {busy:4.0%} of a core"
                sys.stdout.write(f"round {number + 1}  {name:16} {line}\n")
        ratio = statistics.median(ours[1] / base[1] for base, ours in rounds)
        sys.stdout.write(
            f"{options.readers} readers of one topic, {BYTES}-byte messages: the gateway delivers {ratio:.1f} times "
            f"the messages per core of a C loop with one send per message and reader (median of {options.rounds})\n"
        )


if __name__ == "__main__":
    main()

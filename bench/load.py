"""The load that every server gets: C readers and a C publisher, told by templates what each server wants to hear."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

__all__ = ["MESSAGE", "Load", "Result", "Shape", "compiled", "cpu_seconds", "messages", "pinned"]

HERE = Path(__file__).parent
BYTES = 200
"""Of an event's JSON, as the agents' deltas have them with what is around their text."""
CLOCK = "{CCCCCCCCCCCCCC}"
MESSAGE = '{"type":"agent_delta","at":1700000000000,"run":"0123456789abcdef","message":"fedcba9876543210","text":"%s"}'


class Shape(NamedTuple):
    """Who reads what, and how it is published.

    Attributes:
        readers: Connections.
        topics: Topics, to which the readers are dealt in turn.
        each: Topics that one connection reads.
        burst: Events in one publish, all of one topic.

    """

    readers: int
    topics: int = 1
    each: int = 1
    burst: int = 1


class Result(NamedTuple):
    """What one measurement found.

    Attributes:
        seconds: That it took.
        delivered: Events that arrived, each counted once a reader.
        received: Bytes that arrived.
        published: Events that were published.
        reads: Reads that found something, which is about the server's writes.
        p50: Milliseconds between an event's publishing and its arrival.
        p99: The same.
        largest: The same.
        server_cpu: Seconds of the server's CPU.
        store_cpu: Seconds of Redis's CPU; 0 where there is none.
        load_cpu: Seconds of the load's own CPU.
        stalls: Times that nothing came for a second although events were in flight.
        in_flight: Events that had not arrived everywhere at the end.

    """

    seconds: float
    delivered: int
    received: int
    published: int
    reads: int
    p50: float
    p99: float
    largest: float
    server_cpu: float
    store_cpu: float
    load_cpu: float
    stalls: int
    in_flight: int

    @property
    def rate(self) -> float:
        """Deliveries a second."""
        return self.delivered / self.seconds

    @property
    def per_core(self) -> float:
        """Deliveries a second of the server's CPU."""
        return self.delivered / max(self.server_cpu, 1e-9)

    @property
    def busy(self) -> float:
        """Share of a core that the server used."""
        return self.server_cpu / self.seconds

    @property
    def joined(self) -> float:
        """Events that came with one read."""
        return self.delivered / max(self.reads, 1)


def messages(count: int, *, clock: bool = True) -> list[bytes]:
    """Make events whose clock the load sets; each of about `BYTES`."""
    text = "^" + (CLOCK if clock else "")
    text += "the quick brown fox jumps over lazy dogs and "[: BYTES - len(MESSAGE) + 2 - len(text)] + "x" * 40
    return [(MESSAGE % text[: BYTES - len(MESSAGE) + 2]).encode()] * count


def _compile(source: Path, target: Path) -> None:
    if shutil.which("gcc") is None:
        raise SystemExit("bench: gcc is needed for the load (apt-get install gcc)")
    subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", "-o", target, source], check=True)


@contextmanager
def compiled(*names: str) -> Iterator[Path]:
    """Build C programs of this folder, named without ``.c``; gives the folder where they are.

    Raises:
        SystemExit: There is no gcc.

    """
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        for name in names:
            _compile(HERE / f"{name}.c", Path(folder) / Path(name).name)
        yield Path(folder)


def pinned(core: int, *command: str | Path) -> list[str]:
    """Keep a process on one core, where the machine has two and the means to."""
    words = [str(word) for word in command]
    if (os.cpu_count() or 1) < 2 or shutil.which("taskset") is None:
        return words
    return ["taskset", "-c", str(core), *words]


def cpu_seconds(pids: Iterable[int]) -> float:
    """Give what all threads of some processes have used, to the nanosecond."""
    used = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            used += int((task / "schedstat").read_text("ascii").split()[0])
    return used / 1e9


class Load:
    """Connected readers and their publisher, one process on the second core.

    Args:
        program: The compiled ``load.c``.
        templates: Its files.
        shape: Who reads what.
        port: Of the server.
        feed_port: Where events are published.

    Raises:
        SystemExit: The readers could not connect.

    """

    def __init__(
        self, program: Path, templates: Mapping[str, bytes], shape: Shape, *, port: int, feed_port: int
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gateway-bench-")
        for name, text in templates.items():
            (Path(self._folder.name) / name).write_bytes(text)
        sizes = [str(size) for size in (port, shape.readers, shape.topics, shape.each, feed_port)]
        self._process = subprocess.Popen(
            pinned(1, program, *sizes, self._folder.name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.connecting: float = float(self._answer("ready ").split()[1])
        """Seconds that opening all connections took."""

    def _answer(self, start: str = "") -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line or not line.startswith(start):
            self.close()
            raise SystemExit(f"bench: the load ended: {line or 'see above'}")
        return line

    def run(
        self, seconds: float, *, window: int = 0, rate: float = 0, server: Iterable[int], store: Iterable[int] = ()
    ) -> Result:
        """Publish for some time and count what arrives.

        Args:
            seconds: How long.
            window: Events kept in flight; 0 for a rate.
            rate: Events a second where there is no window; 0 for none.
            server: Process ids whose CPU counts as the server's.
            store: Process ids whose CPU counts as Redis's.

        """
        assert self._process.stdin is not None
        before = cpu_seconds(server), cpu_seconds(store)
        self._process.stdin.write(f"{window} {rate} {seconds}\n")
        self._process.stdin.flush()
        words = self._answer().split()
        used, stored = cpu_seconds(server) - before[0], cpu_seconds(store) - before[1]
        delivered, received, published, reads = (int(word) for word in words[:4])
        p50, p99, largest, own = (float(word) for word in words[4:8])
        stalls, in_flight = (int(word) for word in words[8:])
        return Result(
            seconds, delivered, received, published, reads, p50, p99, largest, used, stored, own, stalls, in_flight
        )

    def drain(self, *, patience: int = 20) -> None:
        """Publish nothing until all has arrived, for so many seconds at most."""
        for _ in range(patience * 4):
            if self.run(0.25, server=()).in_flight <= 0:
                return

    def close(self) -> None:
        """End the readers."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._folder.cleanup()


if __name__ == "__main__":
    sys.exit("bench.load is a part of the benchmarks; run `python -m bench`")

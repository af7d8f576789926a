"""The processes that tests have started, so that none outlives its test."""

import contextlib
import time
from collections.abc import Iterator

import psutil

__all__ = ["none_left", "remember"]

PATIENCE = 20.0
"""Seconds that the children of a killed process get to end by themselves, as ours must."""

_started: set[psutil.Process] = set()
"""Those that may still run; a process is known by its id and its time of birth."""


def remember(pid: int) -> None:
    """Note a process that a test or a fixture has just started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        _started.add(psutil.Process(pid))


@contextlib.contextmanager
def none_left() -> Iterator[None]:
    """Kill what was started inside the block and still runs at its end, children included."""
    before = set(_started)
    try:
        yield
    finally:
        _kill(_started - before)
        _started.intersection_update(before)


def _kill(processes: set[psutil.Process]) -> None:
    children: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            children += process.children(recursive=True)
            process.kill()
    for process in _outliving([*processes, *children]):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _outliving([*processes, *children])


def _outliving(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Wait for the end of processes; those that are still there when patience is over."""
    # Not psutil.wait_procs: where an id that was free is a thread's by now, the kernel's answer is no error it knows.
    deadline = time.monotonic() + PATIENCE
    while running := [process for process in processes if _runs(process)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return running


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

"""The processes that tests have started, so that none outlives its test."""

import contextlib
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
    _, alive = psutil.wait_procs([*processes, *children], timeout=PATIENCE)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=PATIENCE)

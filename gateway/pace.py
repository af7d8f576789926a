"""Shared timers: what wants to be done at most so often is done together."""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Protocol

__all__ = ["Pace", "Paced"]

SLICE = 64
"""Steps before the loop may turn to something else."""


class Paced(Protocol):
    """What a pace steps."""

    def step(self, now: float) -> None:
        """Do what is due; ``now`` is the loop's time. Must not raise or block."""


class Pace:
    """One timer for all that is stepped at one interval; it stands still while nothing is due."""

    def __init__(self, interval: float, *, after: Callable[[], None]) -> None:
        """Make a pace that stands still.

        Args:
            interval: Seconds between two steps of one thing, at least.
            after: Called after each slice of steps, in the same loop tick.

        """
        self._interval = interval
        self._after = after
        self._due: dict[Paced, None] = {}
        self._turn: dict[Paced, None] = {}  # what is left of a step under way
        self._timer: asyncio.Handle | None = None

    def add(self, paced: Paced) -> None:
        """Have something stepped with the next turn, once."""
        self._due[paced] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._begin)

    def close(self) -> None:
        """Step nothing any more."""
        self._due.clear()
        self._turn.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._turn, self._due = self._due, {}
        self._step()

    def _step(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for paced in list(islice(self._turn, SLICE)):
            del self._turn[paced]
            paced.step(now)
        self._after()
        if self._turn:
            self._timer = loop.call_soon(self._step)
        else:
            self._timer = loop.call_later(self._interval, self._begin) if self._due else None

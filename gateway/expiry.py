"""When tokens run out: one heap for all connections — pure."""

import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Expiries"]

SLACK = 1000
"""Entries of what has gone that may lie about."""

_Key = TypeVar("_Key", bound=Hashable)


class Expiries(Generic[_Key]):
    """Things that end at a time, which may be put off."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._due: dict[_Key, float] = {}
        self._queued: dict[_Key, float] = {}  # when the earliest entry of each in the heap comes up
        self._heap: list[tuple[float, int, _Key]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """Say how many end some time."""
        return len(self._due)

    def set(self, key: _Key, at: float | None) -> None:
        """Let something end at a time (Unix, in seconds), or never."""
        if at is None:
            if self._due.pop(key, None) is not None and len(self._heap) > 2 * len(self._due) + SLACK:
                self._forget()
            return
        self._due[key] = at
        # One that is put off goes on waiting where it is: whoever puts off as often as they like fills no heap.
        if at < self._queued.get(key, float("inf")):
            self._queue(key, at)

    def take(self, now: float) -> list[_Key]:
        """Take out what has ended, earliest first."""
        ended = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != at:
                continue
            del self._queued[key]
            due = self._due.get(key)
            if due is None:
                continue
            if due <= now:
                del self._due[key]
                ended.append(key)
            else:
                self._queue(key, due)
        return ended

    def _forget(self) -> None:
        """Drop the entries of what has gone, which would wait for their time."""
        self._heap = [(at, next(self._numbers), key) for key, at in self._due.items()]
        heapq.heapify(self._heap)
        self._queued = dict(self._due)

    def _queue(self, key: _Key, at: float) -> None:
        self._queued[key] = at
        heapq.heappush(self._heap, (at, next(self._numbers), key))

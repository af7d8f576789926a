"""The visible part of a topic's session log, as a mirror keeps it (PROTOCOL.md 5.3, logged types)."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.event_types import LOG_FIELDS, SURFACE_TYPES
from gateway.fields import identifier, index, mapping, text

__all__ = ["MAX_BOOKKEEPING", "LogEntry", "SessionLog", "entry_of", "event_of"]

MAX_BOOKKEEPING = 1000
"""Bookkeeping entries that are kept of an open turn."""

LogEntry = dict[str, Any]
"""``{"seq", "type", "time", "data", "run", "message", "blobs"?}``; never changed once made: snapshots share it."""

_Key = tuple[int, int]


class SessionLog:
    """Visible surface entries by (position, seq), and the bookkeeping entries of the open turn.

    Args:
        entries: What it begins with.
        next_seq: The seq that the next event has at least.

    """

    def __init__(self, entries: Iterable[LogEntry] = (), *, next_seq: int = 0) -> None:
        self.next_seq = next_seq
        self._keys: list[_Key] = []
        """The keys of `_surface`, ascending."""
        self._surface: list[LogEntry] = []
        self._bookkeeping: deque[LogEntry] = deque(maxlen=MAX_BOOKKEEPING)
        """By seq."""
        self._carried: dict[str, int] = {}
        """How many surface entries carry a message's id."""
        for entry in entries:
            if entry["type"] in SURFACE_TYPES:
                self._put(_key(entry), entry)
            else:
                self._bookkeeping.append(entry)

    def add(self, kind: str, event: Mapping[str, Any], run: str | None) -> LogEntry | None:
        """Take a logged event; None where it changes nothing: it has no seq, or one that was there before.

        Args:
            kind: Its type.
            event: The event.
            run: Its run.

        """
        entry = entry_of(event)
        if entry is None or entry["seq"] < self.next_seq:
            return None
        self.next_seq = entry["seq"] + 1
        if kind in SURFACE_TYPES:
            self._add_surface(entry)
        elif kind == "turn_end":
            self._bookkeeping.clear()
        else:
            if kind == "turn_start":
                self._bookkeeping.clear()
            self._bookkeeping.append(entry)
        return entry

    def carries(self, message: str) -> bool:
        """Tell whether a visible surface entry is this message."""
        return message in self._carried

    def drop_bookkeeping(self, runs: set[str]) -> None:
        """Remove the bookkeeping of these runs."""
        if any(entry["run"] in runs for entry in self._bookkeeping):
            kept = [entry for entry in self._bookkeeping if entry["run"] not in runs]
            self._bookkeeping = deque(kept, maxlen=MAX_BOOKKEEPING)

    def surface(self) -> list[LogEntry]:
        """Give the visible surface entries in order."""
        return self._surface.copy()

    def entries(self) -> list[LogEntry]:
        """Give all entries in order."""
        merged: list[LogEntry] = []
        done = 0
        for entry in self._bookkeeping:
            place = bisect_left(self._keys, (entry["seq"], entry["seq"]), done)
            merged += self._surface[done:place]
            merged.append(entry)
            done = place
        merged += self._surface[done:]
        return merged

    def _add_surface(self, entry: LogEntry) -> None:
        replaced = _replaced(entry)
        if entry["type"] == "cleared":
            self._keys.clear()
            self._surface.clear()
            self._carried.clear()
        elif replaced is not None:
            start, stop = replaced
            # A seq is at most 2^53-1 as well, so that (stop + 1, -1) is behind every key at stop.
            first, last = bisect_left(self._keys, (start, -1)), bisect_left(self._keys, (stop + 1, -1))
            for shadowed in self._surface[first:last]:
                self._release(shadowed["message"])
            del self._keys[first:last], self._surface[first:last]
        self._put(_key(entry), entry)

    def _put(self, key: _Key, entry: LogEntry) -> None:
        if not self._keys or key > self._keys[-1]:
            self._keys.append(key)
            self._surface.append(entry)
        else:
            place = bisect_right(self._keys, key)
            self._keys.insert(place, key)
            self._surface.insert(place, entry)
        message = entry["message"]
        if message is not None:
            self._carried[message] = self._carried.get(message, 0) + 1

    def _release(self, message: str | None) -> None:
        if message is not None:
            count = self._carried.pop(message) - 1
            if count:
                self._carried[message] = count


def entry_of(event: Mapping[str, Any]) -> LogEntry | None:
    """Make the entry of a logged event; None where it has no seq."""
    seq = index(event.get("seq"))
    if seq is None:
        return None
    entry = {
        "seq": seq,
        "type": event["type"],
        "time": text(event.get("time")),
        "data": {key: value for key, value in event.items() if key not in LOG_FIELDS},
        "run": identifier(event.get("run")),
        "message": identifier(event.get("message")),
    }
    blobs = mapping(event.get("blobs"))
    if blobs is not None:
        entry["blobs"] = blobs
    return entry


def event_of(entry: LogEntry) -> dict[str, Any]:
    """Make the logged event of an entry again; its ``at`` is lost."""
    event = {key: value for key, value in entry.items() if key != "data" and value is not None}
    event.update(entry["data"])
    return event


def _replaced(entry: LogEntry) -> tuple[int, int] | None:
    """Read the range of positions that a surface entry replaces; None where it is an append."""
    operation = entry["data"].get("surface_op")
    if not isinstance(operation, (list, tuple)) or len(operation) != 3 or operation[0] != "replace":
        return None
    start, stop = index(operation[1]), index(operation[2])
    return (start, stop) if start is not None and stop is not None and start <= stop else None


def _key(entry: LogEntry) -> _Key:
    replaced = _replaced(entry)
    return (entry["seq"] if replaced is None else replaced[0], entry["seq"])

"""What a run has to say and has not sent yet: in order, merged, bounded. It decides and never waits."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.broker.port import Change, Condition, Entry, LogStep
from gateway.codec import encode_event

__all__ = ["MAX_APPEND_BYTES", "MAX_APPEND_ENTRIES", "MAX_DELTA_CHARACTERS", "Batch", "Group", "Outbox", "Outgoing"]

MAX_APPEND_ENTRIES = 1000
"""Events in one append: the port's own bound."""

MAX_APPEND_BYTES = 256 * 1024
"""Bytes of one append, unless a single group is larger: a megabyte stops Redis for milliseconds (STORE.md 9)."""

MAX_DELTA_CHARACTERS = 16 * 1024
"""Code points in one delta: even if each is escaped to six bytes, the event stays below its bound of 120 KiB."""

_DELTA_OVERHEAD = 120
"""Bytes that a delta's event takes beside its text."""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way.

    Attributes:
        entry: As the broker takes it.
        event: The same, decoded, for those who look into it.
        values: Hash -> large value that it refers to, which must be stored before it.

    """

    entry: Entry
    event: Mapping[str, Any]
    values: Mapping[str, str] = {}

    @property
    def size(self) -> int:
        """What it counts for in the outbox's bound; the length of a large value is near enough to its bytes."""
        return len(self.entry.data) + sum(len(value) for value in self.values.values())


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Events that must be stored together, and what the append of them demands and changes.

    Attributes:
        entries: The events, in order.
        log: How they move the topic's log; None where none of them is logged.
        conditions: A group that has some travels in an append of its own.
        changes: Made together with the append.

    """

    entries: Sequence[Outgoing]
    log: LogStep | None = None
    conditions: Sequence[Condition] = ()
    changes: Sequence[Change] = ()


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One append, as it is sent and, if need be, sent again.

    Attributes:
        seq: The append's own mark, 1, 2, 3, …
        entries: The events, in order.
        log: How the log moves.
        conditions: All must hold.
        changes: Made together with it.
        ticket: The last thing put in that it carries.
        size: Bytes that it takes of the outbox's bound.

    """

    seq: int
    entries: Sequence[Outgoing]
    log: LogStep | None
    conditions: Sequence[Condition]
    changes: Sequence[Change]
    ticket: int
    size: int

    @property
    def values(self) -> dict[str, str]:
        """The large values that its events refer to, by their hash."""
        return {name: value for out in self.entries for name, value in out.values.items()}


class _Delta:
    """A delta that can still grow."""

    __slots__ = ("at", "characters", "key", "names", "size", "texts", "ticket")

    def __init__(self, key: tuple[str, str, int | None], at: int) -> None:
        self.key = key
        self.at = at
        self.texts: list[str] = []
        self.names: dict[str, str] = {}
        self.characters = 0
        self.size = _DELTA_OVERHEAD
        self.ticket = 0

    def add(self, text: str, names: Mapping[str, str], *, at: int, ticket: int) -> int:
        """Make it longer; returns the bytes that this takes."""
        self.texts.append(text)
        self.names.update(names)
        self.characters += len(text)
        self.at = at
        self.ticket = ticket
        size = len(text) if text.isascii() else len(text.encode())
        self.size += size
        return size


class Outbox:
    """The events of one run between the agent's calls and the appends that carry them.

    Args:
        run: The run's id.
        flush_interval: The least time in seconds between two appends that carry only deltas; 0 sends every
            delta as an event of its own.
        max_bytes: At this many unsent bytes it is `full`.
        first_mark: The marks of its appends come after this one.

    """

    def __init__(self, run: str, *, flush_interval: float, max_bytes: int, first_mark: int = 0) -> None:
        self._run = run
        self._interval = flush_interval
        self._max_bytes = max_bytes
        self._queue: deque[_Delta | tuple[Group, int, int]] = deque()
        self._groups = 0
        self._flushing = False
        self._earliest = 0.0
        self._seq = first_mark
        self.ticket = 0
        """The last thing put in; what an acknowledgement is compared with."""
        self.queued = 0
        """Bytes that wait for an append."""
        self.unsent = 0
        """Bytes that wait for an append or for its acknowledgement."""

    @property
    def full(self) -> bool:
        """Whether callers must wait before they put in more."""
        return self.unsent >= self._max_bytes

    @property
    def urgent(self) -> bool:
        """Whether something inside does not wait for the interval."""
        return self._groups > 0 or self._flushing or self.queued >= MAX_APPEND_BYTES

    def add_delta(
        self, type: str, message: str, text: str, *, at: int, index: int | None = None, names: Mapping[str, str] = {}
    ) -> None:
        """Put in text for the end of an open part.

        Args:
            type: One of the delta types.
            message: The open message.
            text: Whole code points; "" only where ``names`` say something.
            at: Unix time in ms.
            index: Which tool call; None for text and thinking.
            names: A tool call's ``id`` and ``name``, those that are known now.

        """
        key = (type, message, index)
        for start in range(0, max(len(text), 1), MAX_DELTA_CHARACTERS):
            piece = text[start : start + MAX_DELTA_CHARACTERS]
            last = self._queue[-1] if self._queue else None
            if not (
                self._interval
                and isinstance(last, _Delta)
                and last.key == key
                and last.characters + len(piece) <= MAX_DELTA_CHARACTERS
            ):
                last = _Delta(key, at)
                self._queue.append(last)
                self._grow(_DELTA_OVERHEAD)
            self.ticket += 1
            self._grow(last.add(piece, names, at=at, ticket=self.ticket))
            names = {}

    def add(self, group: Group) -> None:
        """Put in events that leave at once, after everything before them."""
        size = sum(out.size for out in group.entries)
        self.ticket += 1
        self._queue.append((group, self.ticket, size))
        self._groups += 1
        self._grow(size)

    def flush(self) -> None:
        """Let what is inside leave without waiting for the interval."""
        self._flushing = bool(self._queue)

    def clear(self) -> None:
        """Forget everything that has not been sent."""
        self._queue.clear()
        self._groups = 0
        self._flushing = False
        self.queued = self.unsent = 0

    def due(self) -> float | None:
        """Say when the next append may leave, on the clock given to `take`; None where there is nothing to send."""
        if not self._queue:
            return None
        return 0.0 if self.urgent else self._earliest

    def take(self, now: float) -> Batch | None:
        """Take the next append out; None where none may leave yet.

        Args:
            now: A monotonic clock, in seconds.

        """
        due = self.due()
        if due is None or now < due:
            return None
        entries: list[Outgoing] = []
        conditions: Sequence[Condition] = ()
        changes: list[Change] = []
        log: LogStep | None = None
        size = 0
        ticket = 0
        while self._queue:
            item = self._queue[0]
            if isinstance(item, _Delta):
                if entries and (size + item.size > MAX_APPEND_BYTES or len(entries) >= MAX_APPEND_ENTRIES):
                    break
                entries.append(self._encode(item))
                size += item.size
                ticket = item.ticket
                self._queue.popleft()
                continue
            group, group_ticket, group_size = item
            too_many = len(entries) + len(group.entries) > MAX_APPEND_ENTRIES or size + group_size > MAX_APPEND_BYTES
            if entries and (too_many or group.conditions):
                break
            entries.extend(group.entries)
            changes.extend(group.changes)
            if group.log is not None:
                log = group.log if log is None else _joined(log, group.log)
            size += group_size
            ticket = group_ticket
            self._groups -= 1
            self._queue.popleft()
            if group.conditions:
                conditions = group.conditions
                break
        self.queued -= size
        self._flushing = self._flushing and bool(self._queue)
        self._earliest = now + self._interval
        return Batch(
            seq=self.mark(), entries=entries, log=log, conditions=conditions, changes=changes, ticket=ticket, size=size
        )

    def mark(self) -> int:
        """Draw the mark of an append."""
        self._seq += 1
        return self._seq

    def acknowledge(self, batch: Batch) -> None:
        """Free the bytes of an append that is stored."""
        self.unsent -= batch.size

    def _grow(self, size: int) -> None:
        self.queued += size
        self.unsent += size

    def _encode(self, delta: _Delta) -> Outgoing:
        kind, message, index = delta.key
        event: dict[str, Any] = {"type": kind, "at": delta.at, "run": self._run, "message": message}
        if index is not None:
            event["index"] = index
        event |= delta.names
        event["text"] = "".join(delta.texts)
        return Outgoing(entry=Entry(kind="d", type=kind, message=message, data=encode_event(event)), event=event)


def _joined(one: LogStep, other: LogStep) -> LogStep:
    return LogStep(first=one.first, before=one.before, next=other.next, after=other.after)

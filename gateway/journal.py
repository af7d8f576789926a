"""What a run keeps of its own appends, so that it can write them again after the broker lost some. It decides only."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.blobs import LARGE
from gateway.broker.port import AppendRequest, Change, Entry, LogStep, Restore
from gateway.codec import encode_event, encode_json
from gateway.context.log import chain_hash
from gateway.errors import HistoryConflictError
from gateway.event_types import LOG_FIELDS, LOGGED_TYPES, RESERVED_TYPES
from gateway.outbox import MAX_APPEND_BYTES, MAX_APPEND_ENTRIES, Batch, Outgoing

__all__ = ["MAX_EARLIER_BYTES", "MAX_KEPT_LINES", "EarlierLog", "Journal"]

MAX_KEPT_LINES = 200
"""Log lines that are kept, and as many of the events that no mirror folds."""

MAX_EARLIER_BYTES = 8 * 1024 * 1024
"""Bytes of earlier runs' logged events that a run keeps: so far back can it repair a topic."""

_UNFOLDED = frozenset({"progress", "notification"})
_CONTEXT_COMMON = frozenset({"type", "at", "run"})
_CONTEXT_KEPT = _CONTEXT_COMMON | {"tool_calls"}


class EarlierLog:
    """The end of a topic's log before this run, as it was read: as much of it as `MAX_EARLIER_BYTES` hold."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, dict[str, Any], bytes]] = deque()
        """Seq, event and its bytes, without a hole between the seqs."""
        self._size = 0
        self.told: Mapping[str, Any] = {}
        """What `context` events have said up to the run's beginning, as one such event's fields."""

    def add(self, event: Mapping[str, Any], data: bytes) -> None:
        """Take the next event of the history; those that are not logged are passed over."""
        seq = event.get("seq")
        if event.get("type") not in LOGGED_TYPES or not isinstance(seq, int):
            return
        if self._events and seq != self._events[-1][0] + 1:
            self._events.clear()
            self._size = 0
        self._events.append((seq, dict(event), data))
        self._size += len(data)
        while self._size > MAX_EARLIER_BYTES:
            self._size -= len(self._events.popleft()[2])

    def since(self, seq: int, before: str, *, until: int, after: str) -> list[tuple[list[Entry], LogStep]] | None:
        """Give what an earlier run wrote, in appends; None where it is not, or not provably, the log's end.

        Args:
            seq: From here on.
            before: The chain hash there, as the store has it: hashing on from it must arrive at ``after``.
            until: The seq behind the last.
            after: The chain hash behind it, as it was when this run began.

        """
        found = [item for item in self._events if seq <= item[0] < until]
        if len(found) != until - seq:
            return None
        appends: list[tuple[list[Entry], LogStep]] = []
        entries: list[Entry] = []
        size, first, start, chain = 0, seq, before, before
        for number, event, data in found:
            if entries and (len(entries) == MAX_APPEND_ENTRIES or size + len(data) > MAX_APPEND_BYTES):
                appends.append((entries, LogStep(first=first, before=start, next=number, after=chain)))
                entries, size, first, start = [], 0, number, chain
            message = event.get("message") if event["type"] == "assistant_message" else None
            ended = message if isinstance(message, str) else ""
            entries.append(Entry(kind="e" if ended else "h", type=event["type"], message=ended, data=data))
            size += len(data)
            fields = {key: value for key, value in event.items() if key not in LOG_FIELDS}
            chain = chain_hash(chain, number, event["type"], event["time"], fields)
        if entries:
            appends.append((entries, LogStep(first=first, before=start, next=until, after=chain)))
        return appends if chain == after else None


class _Kept:
    """One append, less what fell out of it."""

    __slots__ = ("changes", "entries", "log")

    def __init__(self, changes: Sequence[Change], log: LogStep | None) -> None:
        self.entries: dict[int, Entry] = {}
        self.changes = changes
        self.log = log


class Journal:
    """A compacted copy of a run's acknowledged appends.

    What a later event makes needless falls out: the deltas of an ended message, superseded `usage` and `context`,
    all but the last `MAX_KEPT_LINES` log lines.

    Args:
        run: The run's id.
        token: Its lease's token.
        seq: The log's next seq when the run began.
        hash: The chain hash there.
        earlier: The log's end before that.
        values: Hash -> large value that the log before that refers to; the texts are those of the run's context.

    """

    def __init__(
        self, *, run: str, token: str, seq: int, hash: str, earlier: EarlierLog, values: Mapping[str, str] = {}
    ) -> None:
        self._run = run
        self._token = token
        self._first_seq = seq
        self._first_hash = hash
        self._earlier = earlier
        self._appends: dict[int, _Kept] = {}
        self._steps: dict[int, str] = {seq: hash}
        """Chain hash at every seq at which the store can stand."""
        self._last = (seq, hash)
        self._at: int | None = None
        """When the run began; Unix time in ms."""
        self._deltas: dict[str, list[tuple[int, int]]] = {}
        """Of each open message the places of its deltas."""
        self._usage: dict[str, tuple[int, int]] = {}
        """Of each model call the place of its last counters."""
        self._context: list[tuple[int, int, dict[str, Any]]] = []
        """The places of `context` events that a later one may supersede, and what is left of them."""
        self._lines: deque[tuple[int, int]] = deque()
        self._unfolded: deque[tuple[int, int]] = deque()
        self._values: dict[str, str] = dict(values)

    @property
    def log(self) -> tuple[int, str]:
        """The log's next seq and chain hash as of the last acknowledged append."""
        return self._last

    @property
    def values(self) -> Mapping[str, str]:
        """The large values that the store must have before the appends of `requests`."""
        return self._values

    def __len__(self) -> int:
        """Count the events that are kept."""
        return sum(len(kept.entries) for kept in self._appends.values())

    def add(self, batch: Batch) -> None:
        """Keep an append that the store acknowledged."""
        if self._at is None:
            self._at = batch.entries[0].event.get("at")
        kept = self._appends[batch.seq] = _Kept(batch.changes, batch.log)
        if batch.log is not None:
            self._last = (batch.log.next, batch.log.after)
            self._steps[batch.log.next] = batch.log.after
        for index, out in enumerate(batch.entries):
            kept.entries[index] = out.entry
            self._values.update(out.values)
            self._compact((batch.seq, index), out)
        if not kept.entries:
            del self._appends[batch.seq]

    def requests(self, answer: Restore, *, lease: int) -> list[AppendRequest]:
        """Give the appends that bring the store to where this run stands, in order.

        Args:
            answer: What the store still has.
            lease: The length in ms of the lease that the first of them takes, if the store names no holder or another.

        Raises:
            HistoryConflictError: The store's log is not the beginning of this run's, or is shorter than what this run
                still has of earlier runs.

        """
        appends: list[tuple[str, Sequence[Entry], LogStep | None, Sequence[Change]]] = []
        if answer.seq < self._first_seq:
            lost = self._earlier.since(answer.seq, answer.hash, until=self._first_seq, after=self._first_hash)
            if lost is None:
                raise HistoryConflictError(seq=answer.seq, expected=self._last[0])
            # Marks below the run's own, and another one for whatever is left of them the next time.
            appends.extend((f"0.{log.first}", entries, log, ()) for entries, log in lost)
        elif self._steps.get(answer.seq) != answer.hash:
            raise HistoryConflictError(seq=answer.seq, expected=self._last[0])
        known = int(answer.append_seq.partition(".")[0] or 0)
        if not known and self._earlier.told:
            appends.extend(
                (f"0.context.{number}", (entry,), None, ()) for number, entry in enumerate(self._context_entries())
            )
        appends.extend(
            (str(seq), tuple(kept.entries.values()), kept.log, kept.changes)
            for seq, kept in sorted(self._appends.items())
            if seq > known
        )
        return [
            AppendRequest(
                writer=self._run,
                seq=mark,
                entries=entries,
                run=self._run,
                token=self._token,
                log=log,
                lease=lease if number == 0 and answer.holder != self._run else None,
                changes=changes,
            )
            for number, (mark, entries, log, changes) in enumerate(appends)
        ]

    def _context_entries(self) -> Iterator[Entry]:
        """Tell again what earlier runs told of the context, in events of which each can be stored."""
        calls = self._earlier.told.get("tool_calls", {}).get("items", ())
        part: dict[str, Any] = {}
        size = 0
        for name, value in (
            *((name, value) for name, value in self._earlier.told.items() if name != "tool_calls"),
            *(("tool_calls", {"from": number, "items": [call]}) for number, call in enumerate(calls)),
        ):
            added = len(encode_json(value))
            if part and size + added > LARGE:
                yield self._context_entry(part)
                part, size = {}, 0
            size += added
            if name in part:
                part[name]["items"] += value["items"]
            else:
                part[name] = value
        yield self._context_entry(part)

    def _context_entry(self, fields: Mapping[str, Any]) -> Entry:
        data = encode_event({"type": "context", "at": self._at, "run": self._run, **fields})
        return Entry(kind="h", type="context", data=data)

    def _compact(self, place: tuple[int, int], out: Outgoing) -> None:
        entry, event = out.entry, out.event
        message = event.get("message")
        if entry.kind == "d":
            self._deltas.setdefault(entry.message, []).append(place)
        elif entry.kind == "e":
            for old in self._deltas.pop(entry.message, ()):
                self._drop(old)
            if entry.type == "message_discarded" and message is not None:
                usage = self._usage.pop(str(event.get("call")), None)
                if usage is not None:
                    self._drop(usage)
        elif entry.type == "usage":
            superseded = self._usage.get(event["call"])
            if superseded is not None:
                self._drop(superseded)
            self._usage[event["call"]] = place
        elif entry.type == "context":
            self._supersede(event)
            self._context.append((*place, dict(event)))
        elif entry.type == "log":
            self._bound(self._lines, place)
        elif entry.type in _UNFOLDED or entry.type not in RESERVED_TYPES:
            self._bound(self._unfolded, place)

    def _supersede(self, later: Mapping[str, Any]) -> None:
        """Take the fields of a later `context` event out of the earlier ones; its ``tool_calls`` add to theirs."""
        remaining = []
        for seq, index, event in self._context:
            left = {key: value for key, value in event.items() if key not in later or key in _CONTEXT_KEPT}
            facts = left.keys() - _CONTEXT_COMMON
            if not facts:
                self._drop((seq, index))
                continue
            if len(left) < len(event):
                old = self._appends[seq].entries[index]
                self._appends[seq].entries[index] = msgspec.structs.replace(old, data=encode_event(left))
            if facts != {"tool_calls"}:
                remaining.append((seq, index, left))
        self._context = remaining

    def _bound(self, places: deque[tuple[int, int]], place: tuple[int, int]) -> None:
        places.append(place)
        if len(places) > MAX_KEPT_LINES:
            self._drop(places.popleft())

    def _drop(self, place: tuple[int, int]) -> None:
        seq, index = place
        kept = self._appends.get(seq)
        if kept is not None and kept.entries.pop(index, None) is not None and not kept.entries:
            del self._appends[seq]

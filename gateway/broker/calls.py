"""What goes into the scripts and what comes out of them (STORE.md 8)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from gateway.broker.port import (
    AppendAnswer,
    Appended,
    AppendRequest,
    Bound,
    Busy,
    Conflict,
    Deleted,
    Ended,
    Fenced,
    History,
    Restore,
    Stale,
    Standing,
    Stored,
    Unmet,
    Weight,
)
from gateway.broker.server import Argument
from gateway.errors import BrokerError
from gateway.types import Position

__all__ = [
    "advance_arguments",
    "append_answer",
    "append_arguments",
    "appended",
    "check_append",
    "check_lease",
    "check_names",
    "deleted",
    "history",
    "position_of",
    "refusal",
    "slices",
    "stale",
    "standing",
    "weight",
]

MAX_ENTRIES = 1_000
"""Of one append; also of its conditions and of its changes: Lua's stack holds some 8,000 values."""
RESERVE = 64 * 1024
"""Bytes of a full topic that are still taken of what stops a run or answers its questions."""
_URGENT = {"approval_decided", "cancel_requested"}

MAX_LEASE = 30 * 24 * 3600 * 1000
"""Milliseconds of the longest lease."""
MAX_DEADLINE = 10**14
"""Redis time in ms: Lua writes numbers from there on as 1e+14, which is none in the stored format."""
MAX_SEQ = 2**53 - 1

_NAME = re.compile(r"[!-~]{1,1000}\Z")
_HASH = re.compile(r"[!-~]{0,128}\Z")
_DEADLINE = re.compile(r"\S+ (\d+)")
_FIELD = re.compile(r"[wram]:.", re.DOTALL)
_TYPE = re.compile(r"[A-Za-z0-9_.-]{0,64}\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]*\Z")
"""A message id that goes into the list of open messages as it is."""


def check_append(request: AppendRequest) -> None:
    """Check the form of an append.

    Raises:
        ValueError: Something in it would break the stored format, whose fields are separated by spaces, or a reader's
            frame, which is separated by newlines.

    """
    check_names(writer=request.writer, seq=request.seq)
    if request.run or request.token:
        check_names(run=request.run, token=request.token)
    elif request.log is not None or request.lease is not None:
        raise ValueError("a log step and a lease need a run and its token")
    if request.lease is not None:
        check_lease(request.lease)
    if (log := request.log) is not None and not (
        0 <= log.first <= log.next <= MAX_SEQ and _HASH.match(log.before) and _HASH.match(log.after)
    ):
        raise ValueError(f"expected a log step from a seq of 0 or more to a later one, and their hashes, got {log}")
    for condition in request.conditions:
        if condition.op not in {"=", "!", ">", "<"} or not _FIELD.match(condition.field):
            raise ValueError(f"expected a condition on a field w:, r:, a: or m: with = ! > or <, got {condition}")
    for change in request.changes:
        if not _FIELD.match(change.field):
            raise ValueError(f"expected a change of a field w:, r:, a: or m:, got {change.field!r}")
        ahead = _DEADLINE.match(change.value) if change.field.startswith("a:") else None
        if ahead is not None and int(ahead[1][:20]) >= MAX_DEADLINE:
            raise ValueError(f"expected a deadline below {MAX_DEADLINE} ms, got {ahead[1][:40]}")
    if len(request.conditions) > MAX_ENTRIES or len(request.changes) > MAX_ENTRIES:
        raise ValueError(f"expected at most {MAX_ENTRIES} conditions and as many changes")
    if not 1 <= len(request.entries) <= MAX_ENTRIES:
        raise ValueError(f"expected 1 to {MAX_ENTRIES} entries, got {len(request.entries)}")
    for entry in request.entries:
        if not _TYPE.match(entry.type) or b"\n" in entry.data:
            raise ValueError(f"expected an event in one line and its type, got {entry.type!r}: {entry.data[:200]!r}")
        if entry.kind == "d" and not entry.message:
            raise ValueError("a delta needs its message")
        if entry.kind == "x" and (entry is not request.entries[-1] or not request.run):
            raise ValueError("a run's end is the last entry of an append of that run")


def append_arguments(request: AppendRequest, *, max_bytes: int) -> list[Argument]:
    """Give an append's own arguments, from the 7th on."""
    log = request.log
    if all(entry.type in _URGENT for entry in request.entries):
        max_bytes += RESERVE
    arguments: list[Argument] = [
        request.writer,
        request.seq,
        request.run,
        request.token,
        "" if log is None else log.first,
        "" if log is None else log.before,
        "" if log is None else f"{log.next} {log.after}",
        max_bytes,
        "" if request.lease is None else request.lease,
        len(request.conditions),
        len(request.changes),
    ]
    for condition in request.conditions:
        arguments += (condition.field, condition.op, condition.value)
    for change in request.changes:
        arguments += (change.field, change.value)
    for entry in request.entries:
        arguments += (entry.kind, entry.type, _named(entry.message), entry.data)
    return arguments


def advance_arguments(request: AppendRequest) -> list[Argument]:
    """Give the events of an append that may go the short way, from the 8th argument on; none where it may not."""
    if (
        request.writer != request.run
        or request.lease is not None
        or request.log is not None
        or request.conditions
        or request.changes
    ):
        return []
    arguments: list[Argument] = []
    for entry in request.entries:
        if entry.kind == "d":
            arguments += (f" {_named(entry.message)} ", entry.type, entry.data)
        elif entry.kind == "h":
            arguments += ("", entry.type, entry.data)
        else:
            return []
    return arguments


def _named(message: str) -> str:
    """Give a message's id as it stands in the list of open messages."""
    return message if _PLAIN.match(message) else quote(message, safe="")


def check_names(**names: str) -> None:
    """Check what becomes a part of a state field's name or value.

    Raises:
        ValueError: It is empty or has a character that is none of the visible ASCII ones.

    """
    for what, name in names.items():
        if not _NAME.match(name):
            raise ValueError(f"expected a {what} of 1 to 1,000 visible ASCII characters, got {name[:100]!r}")


def check_lease(lease: int) -> None:
    """Check how long a lease is to be.

    Raises:
        ValueError: It is not from 0 ms to 30 days.

    """
    if not 0 <= lease <= MAX_LEASE:
        raise ValueError(f"expected a lease of 0 ms to 30 days, got one of {lease} ms")


def append_answer(answer: Any) -> AppendAnswer:
    """Read the answer to an append."""
    match answer[0]:
        case b"ok":
            return appended(answer[1], people=int(answer[2]), repeated=False)
        case b"dup":
            return appended(answer[1], people=0, repeated=True)
        case b"busy":
            return Busy(holder=answer[1].decode(), deadline=int(answer[2]), position=position_of(*answer[3:]))
        case b"conflict":
            return Conflict(seq=int(answer[1]), hash=answer[2].decode())
        case b"cond":
            return Unmet(field=answer[1].decode(), value=answer[2].decode(), position=position_of(*answer[3:]))
        case b"bound":
            return Bound(size=int(answer[1]))
        case _:
            return refusal(answer)


def history(answer: Any) -> History:
    """Read the answer to a read."""
    _, epoch, top, floor, complete, snapshot, stored, deltas, upto, size, seq, hash_ = answer
    snapshot_position = None
    if snapshot is not None:
        place, _, snapshot = snapshot.partition(b"\n")
        snapshot_epoch, offset = place.decode().split(" ")
        snapshot_position = Position(epoch=snapshot_epoch, offset=int(offset))
    events = [Stored(offset=int(id_[:-2]), data=fields[1]) for id_, fields in stored]
    if deltas:
        events += [Stored(offset=int(id_[:-2]), data=fields[1]) for id_, fields in deltas]
        events.sort(key=_offset)
    return History(
        epoch=epoch.decode(),
        top=int(top),
        floor=int(floor),
        complete=complete == 1,
        snapshot=snapshot,
        snapshot_position=snapshot_position,
        events=tuple(events),
        upto=int(upto),
        size=int(size),
        seq=int(seq),
        hash=hash_.decode(),
    )


def refusal(answer: Any) -> Restore | Ended | Fenced | Deleted:
    """Read what refuses an append and a renewal alike.

    Raises:
        BrokerError: It is no answer of ours.

    """
    match answer[0]:
        case b"restore":
            _, epoch, top, seq, hash_, append_seq, holder, opened = answer
            return Restore(
                position=position_of(epoch, top),
                seq=int(seq),
                hash=hash_.decode(),
                append_seq=append_seq.decode(),
                holder=holder.decode(),
                open=tuple(unquote(message) for message in opened.decode().split()),
            )
        case b"ended":
            epoch, first, last = answer[1].split(b" ")
            return Ended(position=position_of(epoch, last), first=int(first))
        case b"fenced":
            return Fenced(position=position_of(answer[1], answer[2]), holder=answer[3].decode())
        case b"deleted":
            return Deleted(position=position_of(answer[1], answer[2]))
        case _:
            raise BrokerError(f"a script gave an answer that is none of its own: {answer!r}")


def deleted(facts: Sequence[bytes | None], *, run: str, position: Position) -> Deleted | None:
    """Say by the state's ``gone`` and ``epoch`` whether a run wrote to a deleted history; as the scripts do."""
    gone, epoch = facts
    if gone is None or epoch is None:
        return None
    names = gone.decode().split()
    if f"/{run}" in names or position.epoch in names:
        return Deleted(position=Position(epoch=epoch.decode()))
    return None


def stale(answer: Any) -> Stale | None:
    """Read what refuses a trim and its archive alike; None where the answer is another."""
    match answer[0]:
        case b"gone":
            return Stale(position=Position(), floor=0)
        case b"stale":
            return Stale(position=position_of(answer[1], answer[2]), floor=int(answer[3]))
        case _:
            return None


def weight(counts: bytes | None, *, fields: int, snapshot: int, archive: bytes | None) -> Weight:
    """Read the state's counts: ``<top> <events> <open> <bytes of both> <mark>``; None for no topic."""
    _, events, opens, event_bytes, open_bytes, *_ = counts.split(b" ") if counts else (b"0",) * 5
    return Weight(
        size=int(event_bytes) + int(open_bytes),
        snapshot=snapshot,
        archive=int(archive or 0),
        events=int(events) + int(opens),
        fields=fields,
    )


def standing(lease: bytes | None, approvals: Mapping[str, str]) -> Standing:
    """Read a lease: ``<run> <token> <deadline> <length>``; empty or None for none."""
    run, _, deadline, length = lease.split(b" ") if lease else (b"", b"", b"0", b"0")
    return Standing(holder=run.decode(), deadline=int(deadline), length=int(length), approvals=approvals)


def slices(items: Iterable[tuple[int, bytes]], *, size: int) -> Iterator[list[tuple[int, bytes]]]:
    """Cut numbered events into lists of at most ``size`` bytes and 1,000 events, or of one event."""
    part: list[tuple[int, bytes]] = []
    total = 0
    for item in items:
        total += len(item[1])
        if part and (total > size or len(part) >= MAX_ENTRIES):
            yield part
            part, total = [], len(item[1])
        part.append(item)
    if part:
        yield part


def appended(place: bytes, *, people: int, repeated: bool) -> Appended:
    """Read ``<epoch> <first> <last>``."""
    epoch, first, last = place.split(b" ")
    return Appended(position=position_of(epoch, last), first=int(first), people=people, repeated=repeated)


def position_of(epoch: bytes, offset: bytes | int) -> Position:
    """Make a position of two parts of an answer."""
    return Position(epoch=epoch.decode(), offset=int(offset))


def _offset(stored: Stored) -> int:
    return stored.offset

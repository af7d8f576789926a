"""The session log: truth of a conversation, from which its messages are projected."""

import hashlib
import json
import logging
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from gateway.context.errors import ContextDecodeError, InvalidEventError
from gateway.context.event import (
    BOOKKEEPING_TYPES,
    EVENT_TYPES,
    SURFACE_TYPES,
    Event,
    checked_data,
    new_event,
    read_surface_op,
)
from gateway.context.fold import Fold, message_data, message_type
from gateway.context.jsonlike import brief
from gateway.context.messages import Message
from gateway.context.times import now, parse_time
from gateway.context.view import MessageView

__all__ = ["BOOKKEEPING_TYPES", "EVENT_TYPES", "SURFACE_TYPES", "Event", "EventLog", "chain_hash"]

_logger = logging.getLogger(__package__)
_hashed = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def chain_hash(previous: str, seq: int, type: str, time_text: str, data: Mapping[str, Any]) -> str:
    """Hash a log up to and including one event, so that two logs of one length can be told apart.

    Args:
        previous: The hash of the log before the event; "" for an empty one.
        seq: The event's seq.
        type: The event's type.
        time_text: The event's time as it is written.
        data: The event's data, plain JSON.

    """
    text = previous + _hashed.encode([seq, type, time_text, data])
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        # What reaches a topic has U+FFFD for half a surrogate pair (PROTOCOL.md 4.4); both ends must hash the same.
        encoded = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    return hashlib.sha256(encoded).hexdigest()


class EventLog:
    """An append-only log of events; a value: appending gives a new log and leaves this one as it was.

    Logs that grew from one another share a list, so an append costs the event alone. Appending to a log that
    another one has already outgrown copies it first.
    """

    __slots__ = ("_count", "_events", "_memo", "_next_seq")

    def __init__(self) -> None:
        self._events: list[Event] = []
        """Shared with other logs; only ever appended to."""
        self._count = 0
        """How many of the events belong to this log."""
        self._next_seq = 0
        """The seq of the next event."""
        self._memo = (Fold(), 0)
        """A projection and how many events it covers, one value for threads; the rest is added when it is read."""

    @classmethod
    def _of(cls, events: list[Event], count: int, next_seq: int, memo: tuple[Fold, int]) -> "EventLog":
        self = cls.__new__(cls)
        self._events, self._count, self._next_seq, self._memo = events, count, next_seq, memo
        return self

    @classmethod
    def seed(cls, messages: Iterable[Message]) -> "EventLog":
        """Log messages, one event each, at their own times.

        Raises:
            InvalidEventError: One cannot be logged even without its metadata.

        """
        log = cls()
        for message in messages:
            log = log.append_message(message)
        return log

    @classmethod
    def restore(cls, raw_events: Iterable[Any], *, next_seq: int | None = None) -> "EventLog":
        """Read a saved log, or the visible part of one as a mirror's snapshot holds it.

        Stored seqs are kept, holes included; one that is missing or does not increase gets the next free one, with a
        warning. Events in transcript order (a replacement stands where its range stood) are put back into log order
        first. Events of unknown types are dropped with a warning.

        Args:
            raw_events: The JSON forms; keys other than seq, type, time and data are ignored.
            next_seq: The seq of the next event; None is the one after the last. A smaller one than that is refused.

        Raises:
            ContextDecodeError: An event is no map, its data is not JSON, or ``next_seq`` is too small.

        """
        events: list[Event] = []
        free = 0
        at = now()
        for raw in _in_log_order(list(raw_events)):
            seq = raw.get("seq")
            if not isinstance(seq, int) or not _is_seq(seq) or seq < free:
                _logger.warning(
                    "saved event has seq %s where %d or more was expected; it gets %d", brief(seq), free, free
                )
                seq = free
            free = seq + 1
            kind = raw.get("type")
            if not isinstance(kind, str) or kind not in EVENT_TYPES:
                _logger.warning("saved event %d has the unknown type %s; it is dropped", seq, brief(kind))
                continue
            events.append(Event(seq=seq, type=kind, time=_saved_time(raw, at), data=_saved_data(raw, kind)))
        if next_seq is None:
            next_seq = free
        elif not _is_seq(next_seq) or next_seq < free:
            raise ContextDecodeError("malformed", f"expected next_seq of {free} or more, got {brief(next_seq)}")
        return cls._of(events, len(events), next_seq, (Fold(), 0))

    @property
    def next_seq(self) -> int:
        """The seq that the next event gets."""
        return self._next_seq

    def append(self, type: str, data: Mapping[str, Any], time: datetime | None = None) -> "EventLog":
        """Give the log with one event more.

        Args:
            type: One of `EVENT_TYPES`.
            data: What happened; JSON values, or values with one JSON form. It is copied.
            time: When; None is now, one without a zone is UTC.

        Raises:
            InvalidEventError: The event breaks a rule.

        """
        return self._with(new_event(self._next_seq, type, data, time))

    def try_append(self, type: str, data: Mapping[str, Any], time: datetime | None = None) -> "EventLog":
        """Append, or warn and give this same log if the event breaks a rule."""
        try:
            return self.append(type, data, time)
        except InvalidEventError as error:
            _logger.warning("event dropped: %s", error)
            return self

    def append_message(
        self,
        message: Message,
        *,
        source: str | None = None,
        surface_op: tuple[str, int, int] | None = None,
        time: datetime | None = None,
    ) -> "EventLog":
        """Give the log with the event of a message.

        Args:
            message: The message. Metadata that is not JSON is dropped with a warning.
            source: Who put it in, for readers of the log; never part of the message.
            surface_op: ``("replace", start, stop)``, the positions it stands for; None appends.
            time: When; None is the message's own time, or now.

        Raises:
            InvalidEventError: It cannot be logged even without its metadata.
            TypeError: It is no message.

        """
        if not isinstance(message, Message):
            raise TypeError(f"expected a message, got {type(message).__name__}")
        data = message_data(message)
        if source is not None:
            data["source"] = source
        if surface_op is not None:
            data["surface_op"] = surface_op
        kind = message_type(message)
        at = message.created_at if time is None else time
        try:
            return self.append(kind, data, at)
        except InvalidEventError as error:
            if error.code != "unserializable_data" or not message.metadata:
                raise
            log = self.append(kind, {**data, "metadata": {}}, at)
            _logger.warning("metadata of a %s message dropped: %s", message.role, error)
            return log

    def _with(self, event: Event) -> "EventLog":
        events, count = self._events, self._count
        if len(events) != count:
            events = events[:count]
        events.append(event)
        if events[count] is not event:
            # Another thread appended to the same log between the two lines above: its list, our copy.
            events = [*events[:count], event]
        return self._of(events, count + 1, event.seq + 1, self._memo)

    def continues(self, earlier: "EventLog") -> bool:
        """Tell whether this log has grown from an earlier one, or is it; it costs nothing."""
        count = len(earlier)
        if self._count < count:
            return False
        # Grown logs share their events, so that the last one stands for all before it.
        if count and self._events[count - 1] is not earlier._events[count - 1]:  # noqa: SLF001 - of the same class
            return False
        following = self._events[count].seq if self._count > count else self._next_seq
        return following == earlier.next_seq

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return True

    def events(self) -> tuple[Event, ...]:
        """Give all events, oldest first, replaced ones included."""
        return tuple(self._events[: self._count])

    def since(self, seq: int) -> tuple[Event, ...]:
        """Give the events with this seq or a later one, oldest first; it costs what it returns."""
        first = bisect_left(self._events, seq, hi=self._count, key=_seq)
        return tuple(self._events[first : self._count])

    def surface(self) -> tuple[Event, ...]:
        """Give the visible surface events in transcript order."""
        return self.fold().surface()

    def indexed(self) -> tuple[tuple[int, Message], ...]:
        """Give the messages in transcript order, each with the seq of its event."""
        return tuple((event.seq, message) for event, message in self.fold().lines())

    def messages(self) -> MessageView:
        """Give the messages in transcript order."""
        return self.fold().messages

    def fold(self) -> Fold:
        """Give the projection: visible events with their messages."""
        fold, covered = self._memo
        if covered < self._count:
            fold = fold.extended(self._events[covered : self._count])
            self._memo = (fold, self._count)
        return fold

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventLog):
            return NotImplemented
        if self._count != other._count:
            return False
        return self._events is other._events or self.events() == other.events()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<EventLog of {self._count} events, next seq {self._next_seq}>"


def _seq(event: Event) -> int:
    return event.seq


def _is_seq(value: object) -> bool:
    return type(value) is int and value >= 0


def _in_log_order(raw_events: list[Any]) -> list[Mapping[str, Any]]:
    for raw in raw_events:
        if not isinstance(raw, Mapping):
            raise ContextDecodeError("malformed", f"expected a map as event, got {type(raw).__name__}")
    seqs = [raw.get("seq") for raw in raw_events]
    if not all(_is_seq(seq) for seq in seqs):
        return raw_events
    places = [_saved_place(raw) for raw in raw_events]
    if all(a < b for a, b in pairwise(places)) and len(set(seqs)) == len(seqs):
        return sorted(raw_events, key=lambda raw: int(raw["seq"]))
    return raw_events


def _saved_place(raw: Mapping[str, Any]) -> tuple[int, int]:
    data, seq = raw.get("data"), int(raw["seq"])
    try:
        op = read_surface_op(data.get("surface_op")) if isinstance(data, Mapping) else None
    except InvalidEventError:
        op = None
    return seq if op is None else op[0], seq


def _saved_time(raw: Mapping[str, Any], missing: datetime) -> datetime:
    time = raw.get("time")
    if time is None:
        return missing
    try:
        return parse_time(time)
    except (TypeError, ValueError):
        _logger.warning("saved event has the unreadable time %s; it gets the time of now", brief(time))
        return missing


def _saved_data(raw: Mapping[str, Any], kind: str) -> dict[str, Any]:
    data = raw.get("data")
    if not isinstance(data, Mapping):
        return {}
    try:
        return checked_data(kind, data)
    except InvalidEventError as error:
        if error.code not in {"invalid_surface_op", "surface_op_on_bookkeeping"}:
            raise ContextDecodeError("malformed", str(error)) from error
        _logger.warning("saved event appends only: %s", error)
    try:
        return checked_data(kind, {key: value for key, value in data.items() if key != "surface_op"})
    except InvalidEventError as error:
        raise ContextDecodeError("malformed", str(error)) from error

"""An event of the session log, and the rules by which the log refuses one."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from gateway.context.errors import InvalidEventError
from gateway.context.jsonlike import brief, native
from gateway.context.times import format_time, now, parse_time, to_utc

__all__ = ["BOOKKEEPING_TYPES", "EVENT_TYPES", "SURFACE_TYPES", "Event", "checked_data", "read_surface_op"]

SURFACE_TYPES = frozenset(
    {"system_message", "user_message", "assistant_message", "tool_result", "custom_message", "cleared"}
)
"""Events that change the transcript."""
BOOKKEEPING_TYPES = frozenset({"tool_call", "turn_start", "turn_end", "step_start", "step_end", "request_header"})
"""Events that never do."""
EVENT_TYPES = SURFACE_TYPES | BOOKKEEPING_TYPES


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One fact of a session; never changed, never removed.

    Attributes:
        seq: Its place in the log, from 0.
        type: One of `EVENT_TYPES`.
        time: When; UTC.
        data: What; plain JSON, not to be changed.

    """

    seq: int
    type: str
    time: datetime
    data: dict[str, Any]

    @property
    def is_surface(self) -> bool:
        """Whether it can change the transcript."""
        return self.type in SURFACE_TYPES

    @property
    def surface_op(self) -> tuple[int, int] | None:
        """The first and last position that it replaces; None where it only appends."""
        op = self.data.get("surface_op")
        return None if op is None else (op[1], op[2])

    @property
    def position(self) -> int:
        """Where it stands in the transcript: at the start of what it replaces, else at its seq."""
        op = self.data.get("surface_op")
        return self.seq if op is None else op[1]

    def to_dict(self) -> dict[str, Any]:
        """Give its JSON form; the map is the caller's own."""
        return {"seq": self.seq, "type": self.type, "time": format_time(self.time), "data": native(self.data)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> "Event":
        """Read the JSON form.

        Raises:
            InvalidEventError: The log would refuse it, or a field is missing or of another type.

        """
        seq, kind, time = raw.get("seq"), raw.get("type"), raw.get("time")
        if isinstance(seq, bool) or not isinstance(seq, int) or seq < 0:
            raise InvalidEventError("invalid_event", f"expected a seq of 0 or more, got {brief(seq)}")
        if not isinstance(time, str):
            raise InvalidEventError("invalid_event", f"expected time as text, got {type(time).__name__}")
        try:
            at = parse_time(time)
        except ValueError as error:
            raise InvalidEventError("invalid_event", f"expected an ISO 8601 time, got {brief(time)}") from error
        return cls(seq=seq, type=str(kind), time=at, data=checked_data(kind, raw.get("data")))


def new_event(seq: int, kind: str, data: Mapping[str, Any], time: datetime | None) -> Event:
    """Make the event that a log is about to hold.

    Raises:
        InvalidEventError: It breaks a rule.

    """
    checked = checked_data(kind, data)
    return Event(seq=seq, type=kind, time=now() if time is None else to_utc(time), data=checked)


def checked_data(kind: object, data: object) -> dict[str, Any]:
    """Copy an event's data as the log keeps it.

    Args:
        kind: The event's type.
        data: A map of JSON values, or of values that have one JSON form.

    Raises:
        InvalidEventError: The type is unknown, or the data breaks a rule.

    """
    if not isinstance(kind, str) or kind not in EVENT_TYPES:
        raise InvalidEventError("unknown_event_type", f"expected one of the log's event types, got {brief(kind)}")
    if not isinstance(data, Mapping):
        raise InvalidEventError("invalid_event", f"expected a map as data of {kind}, got {type(data).__name__}")
    has_op = "surface_op" in data
    if has_op and kind in BOOKKEEPING_TYPES:
        raise InvalidEventError("surface_op_on_bookkeeping", f"expected no surface_op on {kind}")
    op = read_surface_op(data["surface_op"]) if has_op else None
    try:
        copy: dict[str, Any] = native(data)
    except ValueError as error:
        raise InvalidEventError("unserializable_data", f"{error} in the data of {kind}") from error
    if has_op:
        if op is None:
            del copy["surface_op"]
        else:
            copy["surface_op"] = ["replace", *op]
    return copy


def read_surface_op(raw: object) -> tuple[int, int] | None:
    """Read what an event does to the transcript: None to append, else the first and last position it replaces.

    Raises:
        InvalidEventError: It is neither ``"append"``, null, nor ``("replace", start, stop)`` with 0 ≤ start ≤ stop.

    """
    if raw is None or (isinstance(raw, str) and raw == "append"):
        return None
    if isinstance(raw, list | tuple) and len(raw) == 3 and isinstance(raw[0], str) and raw[0] == "replace":
        start, stop = raw[1], raw[2]
        if type(start) is int and type(stop) is int and 0 <= start <= stop:
            return start, stop
    raise InvalidEventError(
        "invalid_surface_op", f'expected "append" or ["replace", start, stop] with 0 <= start <= stop, got {brief(raw)}'
    )

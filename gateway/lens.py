"""What a reader asks to see of a topic (PROTOCOL.md 3.8) — pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.errors import CommandError, ErrorCode
from gateway.event_types import DELTA_TYPES, END_TYPES, SURFACE_TYPES
from gateway.fields import integer, mapping
from gateway.types import TYPE_PATTERN

__all__ = ["GROUPS", "MAX_RATE", "MAX_TYPES", "Lens", "read_lens", "types_of"]

MAX_RATE = 60
"""Flushes a second that a reader may ask for; more is what it gets without asking."""

MAX_TYPES = 100
"""Names that one lens may list."""

GROUPS: Mapping[str, frozenset[str]] = {
    "chat": frozenset(
        {
            "agent_delta",
            "agent_thinking",
            *SURFACE_TYPES,
            "context",
            "message_discarded",
            "message_edited",
            "message_queued",
            "message_taken",
            "message_withdrawn",
        }
    ),
    "logs": frozenset({"log"}),
    "runs": frozenset(
        {
            "agent_start",
            *END_TYPES,
            "cancel_requested",
            "notification",
            "request_header",
            "step_end",
            "step_start",
            "turn_end",
            "turn_start",
        }
    ),
    "tools": frozenset(
        {"approval_decided", "approval_required", "progress", "tool_call", "tool_call_delta", "tool_result"}
    ),
    "usage": frozenset({"usage"}),
}
"""Names that stand for several types."""


class Lens(msgspec.Struct, frozen=True, kw_only=True):
    """A wish.

    Attributes:
        types: The types of events that travel; None for all.
        rate: Flushes a second at most, neighbouring deltas merged; None for every flush.
        summary: Nothing travels but the topic's summary.

    """

    types: frozenset[str] | None = None
    rate: int | None = None
    finished: bool = False
    summary: bool = False

    @property
    def hidden(self) -> frozenset[str]:
        """The types that do not travel although they are among `types`."""
        return DELTA_TYPES if self.finished else frozenset()


def read_lens(data: object) -> Lens:
    """Read ``lens`` of a subscribe command's data; without one it is a lens that hides nothing.

    Raises:
        CommandError: 107, it has another form.

    """
    fields = mapping(data)
    asked = None if fields is None else fields.get("lens")
    if asked is None:
        return Lens()
    if asked == "summary":
        return Lens(summary=True)
    lens = mapping(asked)
    if lens is None:
        raise _refused('expected a lens to be an object or "summary"', asked)
    unknown = lens.keys() - {"types", "rate", "finished"}
    if unknown:
        raise _refused("expected a lens to have types, rate and finished at most", min(unknown))
    return Lens(types=_types(lens.get("types")), rate=_rate(lens.get("rate")), finished=_finished(lens.get("finished")))


def types_of(names: Iterable[str]) -> frozenset[str]:
    """Give the types that names of types and of groups stand for."""
    return frozenset().union(*(GROUPS.get(name, (name,)) for name in names))


def _types(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not 0 < len(value) <= MAX_TYPES:
        raise _refused(f"expected types to be a list of 1 to {MAX_TYPES} names", value)
    for name in value:
        if not isinstance(name, str) or not TYPE_PATTERN.match(name):
            raise _refused("expected a type of 1 to 64 characters of A-Za-z0-9_.-, or a group", name)
    return types_of(value)


def _rate(value: Any) -> int | None:
    if value is None:
        return None
    rate = integer(value)
    if rate is None or not 1 <= rate <= MAX_RATE:
        raise _refused(f"expected rate to be an integer from 1 to {MAX_RATE}, flushes a second", value)
    return rate


def _finished(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return value is True
    raise _refused("expected finished to be true or false", value)


def _refused(expected: str, got: object) -> CommandError:
    return CommandError(ErrorCode.BAD_REQUEST, f"{expected}, got {got!r:.80}")

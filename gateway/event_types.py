"""The types of events, by what is done with them (PROTOCOL.md 4)."""

from collections.abc import Mapping
from typing import Any

from gateway.errors import CommandError, ErrorCode
from gateway.types import TYPE_PATTERN

__all__ = [
    "BOOKKEEPING_TYPES",
    "DELTA_TYPES",
    "END_TYPES",
    "LOGGED_TYPES",
    "LOG_FIELDS",
    "RESERVED_TYPES",
    "SURFACE_TYPES",
    "check_publishable",
]

DELTA_TYPES = frozenset({"agent_delta", "agent_thinking", "tool_call_delta"})
"""Text added to the end of an open message."""

SURFACE_TYPES = frozenset(
    {"system_message", "user_message", "assistant_message", "tool_result", "custom_message", "cleared"}
)
"""Logged events that are messages, or shadow some."""

BOOKKEEPING_TYPES = frozenset({"tool_call", "turn_start", "turn_end", "step_start", "step_end", "request_header"})
"""Logged events that tell how the work went."""

LOGGED_TYPES = SURFACE_TYPES | BOOKKEEPING_TYPES
"""The session log; they carry `seq`."""

LOG_FIELDS = frozenset({"type", "at", "run", "seq", "time", "message", "blobs"})
"""Fields of a logged event that are no part of its log data (PROTOCOL.md 4.3)."""

END_TYPES = frozenset({"agent_complete", "agent_error", "agent_cancelled", "agent_lost"})
"""The one end of a run."""

RESERVED_TYPES = frozenset(
    {
        *DELTA_TYPES,
        *LOGGED_TYPES,
        *END_TYPES,
        "agent_start",
        "context",
        "usage",
        "log",
        "progress",
        "approval_required",
        "approval_decided",
        "message_queued",
        "message_edited",
        "message_withdrawn",
        "message_taken",
        "message_discarded",
        "cancel_requested",
        "notification",
        "snapshot",
        "summary",
        "broker",
        "hidden",
    }
)
"""What nobody publishes from outside (PROTOCOL.md 4.5)."""


def check_publishable(event: Mapping[str, Any]) -> None:
    """Check what a client, an HTTP caller or `Run.emit` may publish (PROTOCOL.md 4.5).

    Raises:
        CommandError: 107, the type is no text of 1 to 64 characters of ``A-Za-z0-9_.-``; 103, the gateway's own
            events have this type.

    """
    if "type" not in event:
        return
    kind = event["type"]
    if not isinstance(kind, str) or not TYPE_PATTERN.match(kind):
        shown = repr(kind)[:80]
        raise CommandError(ErrorCode.BAD_REQUEST, f"expected a type of 1 to 64 characters of A-Za-z0-9_.-, got {shown}")
    if kind in RESERVED_TYPES:
        raise CommandError(ErrorCode.PERMISSION_DENIED, f"events of type {kind} are the gateway's own")

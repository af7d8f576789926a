"""The conversation that people see: a projection of a mirror's session log (PROTOCOL.md 5.8)."""

from collections.abc import Iterable
from typing import Any

from gateway.fields import text
from gateway.session_log import LogEntry

__all__ = ["conversation"]

_ROLES = {
    "system_message": "system",
    "user_message": "user",
    "assistant_message": "assistant",
    "tool_result": "tool",
}


def conversation(entries: Iterable[LogEntry]) -> list[dict[str, Any]]:
    """Fold surface entries, in order, into messages."""
    return [_message(entry) for entry in entries if entry["type"] != "cleared"]


def _message(entry: LogEntry) -> dict[str, Any]:
    data = entry["data"]
    role = _ROLES.get(entry["type"])
    if role is None:
        role = text(data.get("role"))
    message = {
        "role": "custom" if role is None else role,
        "content": data.get("content"),
        "name": data.get("name"),
        "tool_calls": data.get("tool_calls"),
        "tool_call_id": data.get("tool_call_id"),
        "thinking": data.get("thinking"),
        "metadata": data.get("metadata"),
        "created_at": entry["time"],
        "message": entry["message"],
        "run": entry["run"],
        "seq": entry["seq"],
    }
    if "blobs" in entry:
        message["blobs"] = entry["blobs"]
    return message

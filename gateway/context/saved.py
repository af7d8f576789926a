"""Saved contexts: versions 1 (a message list) and 2 (the event log)."""

import logging
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.context.errors import ContextDecodeError, InvalidEventError
from gateway.context.jsonlike import MAX_DEPTH, Live, brief, lenient, native
from gateway.context.log import EventLog
from gateway.context.messages import Message, ToolCall, content_to_raw
from gateway.context.redaction import is_secret
from gateway.context.times import format_time, parse_time
from gateway.context.usage import Usage

if TYPE_CHECKING:
    from gateway.context.context import Context

__all__ = ["load", "save"]

VERSION = 2
_logger = logging.getLogger(__package__)


def save(ctx: "Context") -> dict[str, Any]:
    """Give a context as plain JSON, version 2; what lives only at run time is left out."""
    return {
        "version": VERSION,
        "id": ctx.id,
        "events": [event.to_dict() for event in ctx.log.events()],
        "next_seq": ctx.log.next_seq,
        "messages": [_saved_message(message) for message in ctx.entries],
        "tool_calls": [lenient(call.to_dict() if isinstance(call, ToolCall) else call) for call in ctx.tool_calls],
        "system_prompt": ctx.system_prompt,
        "deps": _saved_deps(ctx.deps),
        "usage": ctx.usage.to_dict(),
        "needs_response": ctx.needs_response,
        "iteration": ctx.iteration,
        "max_iterations": ctx.max_iterations,
        "started_at": None if ctx.started_at is None else format_time(ctx.started_at),
        "agent_name": ctx.agent_name,
    }


def load(data: object) -> dict[str, Any]:
    """Read saved data as the fields of a context; ``id`` is left out where the data has none.

    Raises:
        ContextDecodeError: It is no context; no other exception leaves.

    """
    version = data.get("version") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or type(version) is not int:
        # Not with what came: it may be anybody's secrets.
        kind = "one without" if isinstance(data, Mapping) else type(data).__name__
        raise ContextDecodeError("missing_version", f"expected a map with a version number, got {kind}")
    if version not in {1, VERSION}:
        raise ContextDecodeError("unsupported_version", f"expected version 1 or 2, got {version}", version=version)
    try:
        fields = {
            "log": _loaded_log(data, version),
            "tool_calls": tuple(native(_maps(data, "tool_calls"))),
            "system_prompt": _optional(data, "system_prompt", str),
            "deps": dict(_optional(data, "deps", Mapping) or {}),
            "usage": Usage.from_mapping(_optional(data, "usage", Mapping) or {}),
            "needs_response": _optional(data, "needs_response", bool) or False,
            "iteration": _count(data, "iteration", 0),
            "max_iterations": _count(data, "max_iterations", 10),
            "started_at": _readable_time(_optional(data, "started_at", str)),
            "agent_name": _optional(data, "agent_name", str),
        }
        context_id = _optional(data, "id", str)
    except ContextDecodeError as error:
        error.version = version
        raise
    except (InvalidEventError, TypeError, ValueError) as error:
        raise ContextDecodeError("malformed", str(error), version=version) from error
    if context_id is not None:
        fields["id"] = context_id
    return fields


def _saved_message(message: Message) -> dict[str, Any]:
    return {
        "role": message.role,
        "content": native(content_to_raw(message.content)),
        "tool_calls": [native(call.to_dict()) for call in message.tool_calls or ()],
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "metadata": native(message.metadata),
    }


def _saved_deps(deps: object) -> dict[str, Any]:
    if not isinstance(deps, Mapping):
        _logger.warning("deps of type %s are not saved; only a map is", type(deps).__name__)
        return {}
    return _saved_map(deps, MAX_DEPTH, top=True)


def _saved_map(entries: Mapping[Any, Any], depth: int, *, top: bool = False) -> dict[str, Any]:
    """Keep the entries that are JSON and whose keys name no secret."""
    saved: dict[str, Any] = {}
    for key, value in entries.items():
        if not isinstance(key, str):
            _logger.warning("a dependency with a key of type %s is not saved; only text is", type(key).__name__)
            continue
        if is_secret(key):
            # At the top this is what the rule is for; below it the caller may not expect it.
            _logger.log(logging.DEBUG if top else logging.WARNING, "dependency %s is not saved: its name", brief(key))
            continue
        try:
            saved[str.__str__(key)] = _saved_value(value, depth - 1)
        except ValueError as error:
            _logger.log(logging.DEBUG if top else logging.WARNING, "dependency %s is not saved: %s", brief(key), error)
    return saved


def _saved_value(value: Any, depth: int) -> Any:
    if depth <= 0:
        raise ValueError(f"expected at most {MAX_DEPTH} levels of nesting")
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, msgspec.Struct) and not isinstance(value, Live):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return _saved_map(value, depth)
    if isinstance(value, list | tuple):
        return [_saved_value(item, depth - 1) for item in value]
    return native(value, depth=depth)


def _loaded_log(data: Mapping[str, Any], version: int) -> EventLog:
    if version == VERSION:
        events = data.get("events")
        if isinstance(events, list | tuple):
            return EventLog.restore(events, next_seq=data.get("next_seq"))
        _logger.warning("saved context has events of type %s; its messages are taken", type(events).__name__)
    return EventLog.seed(_loaded_message(raw) for raw in _maps(data, "messages"))


def _loaded_message(raw: Mapping[str, Any]) -> Message:
    fields = {key: raw.get(key) for key in ("role", "content", "tool_call_id", "name", "metadata")}
    # Version 1 writes an empty list for "no calls" of every role, and never a time.
    fields["tool_calls"] = raw.get("tool_calls") or None
    role = fields["role"]
    if isinstance(role, str) and role not in {"system", "user", "assistant", "tool"}:
        _logger.warning("saved message has the unknown role %s; it becomes user", brief(role))
        fields["role"] = "user"
    return Message.from_dict(fields)


def _maps(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    items = _optional(data, key, list, tuple) or ()
    for item in items:
        if not isinstance(item, Mapping):
            raise ContextDecodeError("malformed", f"expected maps in {key}, got {type(item).__name__}")
    return list(items)


def _optional(data: Mapping[str, Any], key: str, *types: type) -> Any:
    value = data.get(key)
    if value is not None and not isinstance(value, types):
        names = " or ".join(kind.__name__ for kind in types)
        raise ContextDecodeError("malformed", f"expected {key} to be {names} or null, got {type(value).__name__}")
    return value


def _count(data: Mapping[str, Any], key: str, default: int) -> int:
    value = data.get(key)
    if value is None:
        return default
    if type(value) is not int or value < 0:
        raise ContextDecodeError("malformed", f"expected {key} to be a whole number of 0 or more, got {brief(value)}")
    return value


def _readable_time(text: str | None) -> Any:
    try:
        return None if text is None else parse_time(text)
    except ValueError:
        return None

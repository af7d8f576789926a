"""A message of the conversation and the tool calls it asks for."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec

from gateway.context.content import ContentPart, flatten
from gateway.context.jsonlike import brief, compact_json
from gateway.context.times import format_time, now, parse_time, to_utc

__all__ = ["Content", "ContentPart", "Entry", "Message", "ToolCall"]

Content = str | tuple[ContentPart, ...] | None

_ROLES = ("system", "user", "assistant", "tool")


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that a model asks for.

    Attributes:
        id: The provider's id; None where it gave none.
        name: The tool.
        arguments: JSON text as the model wrote it, or the parsed value.
        extra: The fields of a provider's own.

    """

    id: str | None = None
    name: str | None = None
    arguments: Any = None
    extra: dict[str, Any] = {}

    @classmethod
    def from_raw(cls, raw: "ToolCall | Mapping[str, Any]") -> "ToolCall":
        """Import a call, flat or with name and arguments under ``function``; unknown keys go to ``extra``.

        A null counts as missing, other false values are kept. Arguments under ``function`` that are the JSON text
        of an object are parsed.

        Raises:
            TypeError: It is neither a call nor a map.

        """
        if isinstance(raw, ToolCall):
            return raw
        if not isinstance(raw, Mapping):
            raise TypeError(f"expected a tool call or a map, got {type(raw).__name__}")
        extra = {key: value for key, value in raw.items() if key not in {"id", "name", "arguments"}}
        call_id, name, arguments = raw.get("id"), raw.get("name"), raw.get("arguments")
        nested = raw.get("function")
        if isinstance(nested, Mapping):
            call_id = nested.get("id") if call_id is None else call_id
            name = nested.get("name") if name is None else name
            arguments = _parsed(nested.get("arguments")) if arguments is None else arguments
            rest = {key: value for key, value in nested.items() if key not in {"id", "name", "arguments"}}
            extra.pop("function")
            if rest:
                extra["function"] = rest
        return cls(id=call_id, name=name, arguments=arguments, extra=extra)

    def to_dict(self) -> dict[str, Any]:
        """Give the fields that are set, and ``extra`` beside them."""
        own = {"id": self.id, "name": self.name, "arguments": self.arguments}
        return {**self.extra, **{key: value for key, value in own.items() if value is not None}}


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the conversation.

    Attributes:
        role: ``system``, ``user``, ``assistant``, ``tool``, or one of a provider's own.
        content: Text, parts, or nothing; a given list of parts becomes a tuple.
        tool_calls: The calls an assistant asks for; None and empty both mean none.
        tool_call_id: The call that a tool message answers.
        name: Who speaks, or which tool.
        thinking: The model's reasoning, as text.
        reasoning_details: The reasoning as the provider wants it back.
        metadata: Whatever belongs to the message and is not for the model.
        refs: References to other systems.
        created_at: When; UTC. None until it is logged.

    """

    role: str
    content: Content = None
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    thinking: str | None = None
    reasoning_details: list[Any] | None = None
    metadata: dict[str, Any] = {}
    refs: dict[str, Any] | None = None
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        if isinstance(self.content, list | tuple):
            parts = tuple(ContentPart.from_raw(part) for part in self.content)
            msgspec.structs.force_setattr(self, "content", parts)
        if self.tool_calls is not None:
            calls = tuple(ToolCall.from_raw(call) for call in self.tool_calls)
            msgspec.structs.force_setattr(self, "tool_calls", calls)
        if self.created_at is not None and self.created_at.tzinfo is not UTC:
            msgspec.structs.force_setattr(self, "created_at", to_utc(self.created_at))

    @classmethod
    def system(cls, content: Content | Sequence[ContentPart], **fields: Any) -> "Message":
        """Make a system message, stamped with now unless ``created_at`` is given."""
        return cls(role="system", content=_content(content), **_stamped(fields))

    @classmethod
    def user(cls, content: Content | Sequence[ContentPart], **fields: Any) -> "Message":
        """Make a person's message, stamped with now unless ``created_at`` is given."""
        return cls(role="user", content=_content(content), **_stamped(fields))

    @classmethod
    def assistant(cls, content: Content | Sequence[ContentPart] = None, **fields: Any) -> "Message":
        """Make a model's message, stamped with now unless ``created_at`` is given."""
        return cls(role="assistant", content=_content(content), **_stamped(fields))

    @classmethod
    def tool(cls, tool_call_id: str | None, result: object, **fields: Any) -> "Message":
        """Make the answer to a tool call, stamped with now unless ``created_at`` is given.

        Args:
            tool_call_id: The call.
            result: Text and content parts are kept; anything else is written as compact JSON, never failing.
            fields: Other fields of the message.

        """
        is_parts = (
            isinstance(result, list | tuple)
            and len(result) > 0
            and all(isinstance(part, ContentPart) for part in result)
        )
        content = _content(result) if isinstance(result, str) or is_parts else compact_json(result)
        return cls(role="tool", content=content, tool_call_id=tool_call_id, **_stamped(fields))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> "Message":
        """Read a saved message, checking it.

        Raises:
            ValueError: The role is unknown, a field has the wrong type, or the role does not allow it.

        """
        if not isinstance(raw, Mapping):
            raise ValueError(f"expected a map, got {type(raw).__name__}")  # noqa: TRY004 - a value from outside
        role, content, tool_call_id = raw.get("role"), raw.get("content"), raw.get("tool_call_id")
        if role not in _ROLES:
            raise ValueError(f"expected a role of {', '.join(_ROLES)}, got {brief(role)}")
        _check_content(role, content)
        if role == "tool" and not isinstance(tool_call_id, str):
            raise ValueError(f"expected the tool_call_id of a tool message, got {brief(tool_call_id)}")
        if role != "tool" and tool_call_id is not None:
            raise ValueError(f"expected no tool_call_id on a {role} message, got {brief(tool_call_id)}")
        calls = _typed(raw, "tool_calls", list, tuple)
        if not all(isinstance(call, Mapping) for call in calls or ()):
            raise ValueError("expected tool_calls to be a list of maps")
        created_at = _typed(raw, "created_at", str, datetime)
        return cls(
            role=role,
            content=tuple(map(ContentPart.from_logged, content)) if isinstance(content, list | tuple) else content,
            tool_calls=calls,
            tool_call_id=tool_call_id,
            name=_typed(raw, "name", str),
            thinking=_typed(raw, "thinking", str),
            reasoning_details=_typed(raw, "reasoning_details", list),
            metadata=dict(_typed(raw, "metadata", Mapping) or {}),
            refs=_typed(raw, "refs", dict),
            created_at=parse_time(created_at) if isinstance(created_at, str) else created_at,
        )

    @classmethod
    def from_raw(cls, raw: "Message | Mapping[str, Any]") -> "Message":
        """Import a message of a conversation from elsewhere, forgiving all but a missing role.

        Raises:
            ValueError: It has no role.
            TypeError: It is neither a message nor a map.

        """
        if isinstance(raw, Message):
            return raw
        if not isinstance(raw, Mapping):
            raise TypeError(f"expected a message or a map, got {type(raw).__name__}")
        role = raw.get("role")
        role = role.value if isinstance(role, Enum) else role
        if not isinstance(role, str) or not role:
            raise ValueError(f"expected a message with a role, got {brief(role)}")
        content, thinking = _imported_content(role, raw.get("content"))
        if role == "assistant" and not thinking:
            written = raw.get("thinking")
            thinking = written if isinstance(written, str) else None
        calls = raw.get("tool_calls")
        details, refs, metadata = raw.get("reasoning_details"), raw.get("refs"), raw.get("metadata")
        return cls(
            role=role,
            content=content,
            tool_calls=_imported_calls(calls) if isinstance(calls, list | tuple) else None,
            tool_call_id=raw.get("tool_call_id"),
            name=raw.get("name"),
            thinking=thinking,
            reasoning_details=list(details) if isinstance(details, list | tuple) else None,
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
            refs=dict(refs) if isinstance(refs, Mapping) and refs else None,
            created_at=_readable_time(raw.get("created_at")) or _readable_time(raw.get("timestamp")) or now(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the fields that are set, parts and calls as maps, the time as ISO text."""
        fields: dict[str, Any] = {"role": self.role}
        if self.content is not None:
            fields["content"] = content_to_raw(self.content)
        if self.tool_calls is not None:
            fields["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        for name in ("tool_call_id", "name", "thinking", "reasoning_details", "refs"):
            value = getattr(self, name)
            if value is not None:
                fields[name] = value
        if self.metadata:
            fields["metadata"] = self.metadata
        if self.created_at is not None:
            fields["created_at"] = format_time(self.created_at)
        return fields

    @property
    def text(self) -> str:
        """The content as text for people; images and files by name in brackets."""
        return flatten(self.content)

    @property
    def has_tool_calls(self) -> bool:
        """Whether the message asks for at least one tool call."""
        return bool(self.tool_calls)


Entry = Message
"""The name of a message in a plain thread; the same class."""


def content_to_raw(content: object) -> Any:
    """Give content with its parts as maps."""
    return [part.to_dict() for part in content] if isinstance(content, tuple) else content


def _content(content: Any) -> Content:
    return tuple(content) if isinstance(content, list) else content


def _stamped(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.get("created_at") is None:
        fields["created_at"] = now()
    return fields


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _typed(raw: Mapping[str, Any], key: str, *types: type) -> Any:
    value = raw.get(key)
    if value is not None and not isinstance(value, types):
        names = " or ".join(kind.__name__ for kind in types)
        raise ValueError(f"expected {key} to be {names}, got {type(value).__name__}")
    return value


def _check_content(role: str, content: object) -> None:
    if isinstance(content, list | tuple):
        if not all(isinstance(part, str | Mapping | ContentPart) for part in content):
            raise ValueError("expected content parts to be text or maps")
    elif content is None:
        if role != "assistant":
            raise ValueError(f"expected content of a {role} message, got none")
    elif not isinstance(content, str):
        raise ValueError(f"expected content to be text, parts or null, got {type(content).__name__}")
    if content == "" and role in {"system", "user"}:
        raise ValueError(f"expected content of a {role} message, got empty text")


def _readable_time(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        return None
    try:
        return parse_time(value)
    except ValueError:
        return None


def _imported_calls(calls: Sequence[object]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall.from_raw(call) for call in calls if isinstance(call, ToolCall | Mapping))


def _imported_content(role: str, content: object) -> tuple[Content, str | None]:
    """Sort a foreign content list into content and, for an assistant, thinking."""
    if content is None or isinstance(content, str):
        return content, None
    if not isinstance(content, list | tuple):
        return compact_json(content), None
    if role in {"user", "tool"}:
        return tuple(ContentPart.from_raw(part) for part in content), None
    if role != "assistant":
        return "".join(_plain_text(part) or "" for part in content if _kind(part) == "text"), None
    thinking = "".join(_thinking_text(part) for part in content if _kind(part) == "thinking")
    shown = [part for part in content if _kind(part) != "thinking"]
    parts = tuple(ContentPart.from_raw(part) for part in shown)
    if any(part.type != "text" for part in parts):
        return parts, thinking or None
    texts = (_plain_text(raw) if _kind(raw) == "text" else part.text for raw, part in zip(shown, parts, strict=True))
    return "".join(text or "" for text in texts), thinking or None


def _kind(part: object) -> object:
    if isinstance(part, str):
        return "text"
    return part.type if isinstance(part, ContentPart) else part.get("type") if isinstance(part, Mapping) else None


def _plain_text(part: object) -> str | None:
    text = part if isinstance(part, str) else part.text if isinstance(part, ContentPart) else _get(part, "text")
    return text if isinstance(text, str) else None


def _thinking_text(part: object) -> str:
    if isinstance(part, ContentPart):
        return part.text or ""
    texts = (_get(part, "thinking"), _get(part, "text"))
    return next((text for text in texts if isinstance(text, str)), "")


def _get(part: object, key: str) -> object:
    return part.get(key) if isinstance(part, Mapping) else None

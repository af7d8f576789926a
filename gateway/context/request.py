"""What a model is sent: the transcript with the system prompt in front, as plain maps."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from gateway.context.content import ContentPart, flatten
from gateway.context.messages import Content, Message, content_to_raw

__all__ = ["EPOCH", "extended_content", "overlay_message", "request_messages"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of a message that nothing gives a time."""


def overlay_message(first: Message | None, overlay: str, started_at: datetime | None) -> tuple[Message, bool]:
    """Make the leading system message under a system-prompt overlay.

    Args:
        first: The message that leads without it; None for an empty transcript.
        overlay: The text to add.
        started_at: The time for the message where no other gives one.

    Returns:
        The message, and whether it stands for `first` instead of in front of it.

    """
    if first is not None and first.role == "system":
        return msgspec.structs.replace(first, content=extended_content(first.content, overlay)), True
    time = first.created_at if first is not None else None
    return Message(role="system", content=overlay, created_at=time or started_at or EPOCH), False


def extended_content(content: Content, overlay: str) -> Content:
    """Put an overlay behind a system message's content, after an empty line."""
    addition = f"\n\n{overlay}"
    if isinstance(content, tuple):
        return (*content, ContentPart.of_text(addition))
    return flatten(content) + addition


def request_messages(
    entries: Sequence[Message], *, system_prompt: str | None, overlay: str | None, limit: int | None
) -> list[dict[str, Any]]:
    """Give the request projection.

    Args:
        entries: The transcript.
        system_prompt: Put in front; None for none.
        overlay: Added to the leading system message, or put in front as one; None for none.
        limit: How many entries to keep, the last ones; None, negative and not a whole number keep all.

    """
    kept: Iterable[Message] = entries
    if type(limit) is int and limit >= 0:
        kept = entries[len(entries) - min(limit, len(entries)) :]
    messages = list(kept)
    if system_prompt is not None:
        messages.insert(0, Message(role="system", content=system_prompt))
    if overlay:
        head, replaces = overlay_message(messages[0] if messages else None, overlay, None)
        messages[: int(replaces)] = [head]
    return [_request_message(message) for message in messages]


def _request_message(message: Message) -> dict[str, Any]:
    role = message.role
    fields: dict[str, Any] = {"role": role}
    content = content_to_raw(message.content)
    calls = None if message.tool_calls is None else [call.to_dict() for call in message.tool_calls]
    if role == "tool":
        fields["tool_call_id"] = message.tool_call_id
        fields["name"] = message.name
        fields["content"] = content
    elif role == "assistant":
        if calls is not None and content is None:
            content = ""
        fields["content"] = _with_thinking(content, message.thinking)
        if calls is not None:
            fields["tool_calls"] = calls
    else:
        fields["content"] = content
        if role not in {"system", "user"}:
            if message.tool_call_id is not None:
                fields["tool_call_id"] = message.tool_call_id
            if calls is not None:
                fields["tool_calls"] = calls
    if role != "tool" and message.name is not None:
        fields["name"] = message.name
    if role not in {"system", "user", "tool"} and message.reasoning_details is not None:
        fields["reasoning_details"] = message.reasoning_details
    if message.refs is not None:
        fields["refs"] = message.refs
    return fields


def _with_thinking(content: Any, thinking: str | None) -> Any:
    if not thinking:
        return content
    block = {"type": "thinking", "thinking": thinking}
    if isinstance(content, list):
        return [block, *content]
    return [block, {"type": "text", "text": content or ""}]

"""The fields of what `rpc` methods are given, checked: what has another form is error 107 (a topic: 102)."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import msgspec

from gateway.codec import encode_json
from gateway.errors import CommandError, ErrorCode
from gateway.session import topic_of
from gateway.types import Topic

__all__ = [
    "MAX_ARGUMENTS",
    "MAX_CONTENT",
    "MAX_REASON",
    "arguments_field",
    "choice_field",
    "content_field",
    "encode_content",
    "id_field",
    "name_field",
    "reason_field",
    "refuse",
    "topic_field",
]

MAX_CONTENT = 64 * 1024
"""Bytes of a message's content as JSON."""

MAX_ARGUMENTS = 64 * 1024
"""Bytes of a tool call's edited arguments."""

MAX_REASON = 4 * 1024
"""Bytes of a decision's reason."""

_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_MAX_NAME = 1000


def refuse(reason: str) -> NoReturn:
    """Refuse a request: 107."""
    raise CommandError(ErrorCode.BAD_REQUEST, reason)


def topic_field(data: Mapping[str, Any]) -> Topic:
    """Read the field ``topic``."""
    topic = data.get("topic")
    if not isinstance(topic, str):
        refuse("expected a text `topic`")
    return topic_of(topic)


def id_field(data: Mapping[str, Any]) -> str:
    """Read the field ``id``, the client's own id of an action."""
    client_id = data.get("id")
    if not isinstance(client_id, str) or not _ID.match(client_id):
        refuse("expected an `id` of 1 to 64 characters of A-Z a-z 0-9 _ . -")
    return client_id


def name_field(data: Mapping[str, Any], field: str) -> str:
    """Read a field that names a run, a message or a tool call."""
    name = data.get(field)
    if not isinstance(name, str) or not 1 <= len(name) <= _MAX_NAME:
        refuse(f"expected `{field}`: a text of 1 to {_MAX_NAME} characters")
    return name


def choice_field(data: Mapping[str, Any], field: str, choices: Collection[str], *, default: str | None = None) -> str:
    """Read a field that has one of a few values; ``default`` None means that it must be there."""
    value = data.get(field, default)
    if not isinstance(value, str) or value not in choices:
        refuse(f"expected `{field}` to be one of {', '.join(choices)}, got {value!r:.80}")
    return value


def content_field(data: Mapping[str, Any]) -> str | list[dict[str, Any]]:
    """Read the field ``content`` of a message."""
    content = data.get("content")
    parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
    if not content or not (parts or isinstance(content, str)):
        refuse("expected `content`: a text, or a list of content parts")
    size = len(encode_content(content))
    if size > MAX_CONTENT + 2:  # the quotes around a text
        refuse(f"`content` may have {MAX_CONTENT} bytes as JSON, this has {size}")
    return content  # type: ignore[no-any-return]  # checked above


def encode_content(content: str | list[dict[str, Any]]) -> str:
    """Give a message's content as the JSON text that the store keeps."""
    return encode_json(content).decode()


def arguments_field(data: Mapping[str, Any], *, wanted: bool) -> str | None:
    """Read the field ``arguments``: the JSON text of an object that replaces a tool call's own.

    Args:
        data: What was sent.
        wanted: Whether the field must be there; otherwise it must not, as nobody would heed it.

    """
    text = data.get("arguments")
    if not wanted:
        if text is not None:
            refuse("`arguments` are for the decision `edit` only")
        return None
    if not isinstance(text, str):
        refuse("expected `arguments`: the new arguments as JSON text")
    size = len(text.encode(errors="replace"))
    if size > MAX_ARGUMENTS:
        refuse(f"`arguments` may have {MAX_ARGUMENTS} bytes, this has {size}")
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        refuse("`arguments` are nested too deeply")
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        refuse(f"`arguments` are no JSON: {_place(text) or error}")
    if not isinstance(value, dict):
        refuse(f"expected `arguments` to be a JSON object, got {type(value).__name__}")
    return text


def _place(text: str) -> str:
    """Say what is wrong with a text that is no JSON, and where; "" where only a stricter decoder finds fault."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    except (RecursionError, ValueError):
        pass
    return ""


def reason_field(data: Mapping[str, Any]) -> str | None:
    """Read the field ``reason`` of a decision; None where there is none."""
    reason = data.get("reason")
    if reason is None:
        return None
    if not isinstance(reason, str):
        refuse("expected `reason` to be a text")
    size = len(reason.encode(errors="replace"))
    if size > MAX_REASON:
        refuse(f"`reason` may have {MAX_REASON} bytes, this has {size}")
    return reason

"""A conversation for the eyes of a developer."""

from collections.abc import Sequence
from typing import Any

from gateway.context.content import ContentPart, flatten
from gateway.context.messages import Message, ToolCall

__all__ = ["debug_view", "format_lines"]

_LONG, _SHORT = 200, 60
_TAGS = {"user": "[user]   ", "assistant": "[asst]   ", "tool": "[tool]   ", "system": "[system] "}


def debug_view(
    entries: Sequence[Message],
    *,
    id: str,
    system_prompt: str | None,
    last: int | None,
    truncate: int,
) -> dict[str, Any]:
    """Give id, length, system prompt and entries as a small map.

    Args:
        entries: The transcript.
        id: The context's id.
        system_prompt: None for none.
        last: How many entries to show, the last ones; None, 0, negative and not a whole number show all.
        truncate: Characters of text to show.

    """
    shown = entries[-last:] if type(last) is int and last > 0 else entries
    return {
        "id": id,
        "length": len(entries),
        "system_prompt": None if system_prompt is None else _cut(system_prompt, truncate),
        "entries": [_debug_entry(entry, truncate) for entry in shown],
    }


def format_lines(entries: Sequence[Message], *, system_prompt: str | None) -> list[str]:
    """Give one line per message, the system prompt first where there is one."""
    lines = [] if system_prompt is None else ["[system] " + _cut(system_prompt, _SHORT)]
    lines += [_line(entry) for entry in entries]
    return lines


def _debug_entry(entry: Message, truncate: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"role": entry.role}
    if entry.content is not None:
        shown["content"] = _cut(flatten(entry.content), truncate)
    if entry.tool_calls:
        shown["tool_calls"] = [_call_name(call, "unknown") for call in entry.tool_calls]
    if entry.name is not None:
        shown["name"] = entry.name
    if entry.tool_call_id is not None:
        shown["tool_call_id"] = entry.tool_call_id
    return shown


def _line(entry: Message) -> str:
    tag = _TAGS.get(entry.role, f"[{entry.role}] ")
    if entry.role == "assistant" and entry.tool_calls:
        return f"{tag}<tool: {', '.join(_call_name(call, '?') for call in entry.tool_calls)}>"
    if entry.role == "tool":
        return f"{tag}{entry.name or ''}: {_cut(_described(entry.content), _SHORT)}"
    return tag + _cut(_described(entry.content), _LONG)


def _call_name(call: ToolCall, nameless: str) -> str:
    return nameless if call.name is None else str(call.name)


def _described(content: object) -> str:
    if isinstance(content, tuple):
        return " ".join(_described_part(part) for part in content)
    return flatten(content)


def _described_part(part: ContentPart) -> str:
    detail = part.text or part.url or part.filename or part.file_id
    return f"[{part.type}] {detail}" if detail else f"[{part.type}]"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "..."

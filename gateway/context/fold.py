"""From events to messages: the transcript is a projection of the log."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.context.content import ContentPart
from gateway.context.event import SURFACE_TYPES, Event
from gateway.context.messages import Message, ToolCall, content_to_raw
from gateway.context.view import MessageView

__all__ = ["Fold", "message_data", "message_type", "project"]

_TYPE_OF_ROLE = {
    "system": "system_message",
    "user": "user_message",
    "assistant": "assistant_message",
    "tool": "tool_result",
}
_ROLE_OF_TYPE = {kind: role for role, kind in _TYPE_OF_ROLE.items()}


def message_type(message: Message) -> str:
    """Tell the type of the event that logs a message."""
    return _TYPE_OF_ROLE.get(message.role, "custom_message")


def message_data(message: Message) -> dict[str, Any]:
    """Give the data of the event that logs a message; nothing but its time is lost."""
    data: dict[str, Any] = {
        "content": content_to_raw(message.content),
        "name": message.name,
        "metadata": message.metadata,
    }
    if message.role == "assistant" or message.tool_calls is not None:
        calls = message.tool_calls
        data["tool_calls"] = None if calls is None else [call.to_dict() for call in calls]
    if message.role == "assistant" or message.thinking is not None:
        data["thinking"] = message.thinking
    if message.role == "tool" or message.tool_call_id is not None:
        data["tool_call_id"] = message.tool_call_id
    if message.reasoning_details is not None:
        data["reasoning_details"] = message.reasoning_details
    if message.refs is not None:
        data["refs"] = message.refs
    if message.role not in _TYPE_OF_ROLE:
        data["role"] = message.role
    return data


def project(event: Event) -> Message:
    """Give the message that a surface event other than ``cleared`` stands for, as it was logged; never fails."""
    get = event.data.get
    role = _ROLE_OF_TYPE.get(event.type) or get("role")
    content, calls, metadata = get("content"), get("tool_calls"), get("metadata")
    return Message(
        role=role if isinstance(role, str) else "custom",
        content=tuple(ContentPart.from_logged(part) for part in content) if isinstance(content, list) else content,
        tool_calls=_calls(calls) if isinstance(calls, list) else None,
        tool_call_id=get("tool_call_id"),
        name=get("name"),
        thinking=get("thinking"),
        reasoning_details=get("reasoning_details"),
        metadata=metadata if isinstance(metadata, dict) else {},
        refs=get("refs"),
        created_at=event.time,
    )


def _calls(calls: list[Any]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall.from_raw(call) for call in calls if isinstance(call, Mapping))


class Fold:
    """The visible surface events and their messages at one length of a log; a value.

    Folds of one log share a list, which is only ever appended to: a longer log's fold costs what was added.
    """

    __slots__ = ("_cleared", "_count", "_lines")

    def __init__(
        self, lines: list[tuple[Event, Message]] | None = None, count: int = 0, cleared: Event | None = None
    ) -> None:
        self._lines = [] if lines is None else lines
        """By (position, seq); shared with other folds."""
        self._count = count
        """How many of the lines belong to this fold."""
        self._cleared = cleared
        """The last ``cleared`` event that is visible; it has no message."""

    def __len__(self) -> int:
        return self._count

    @property
    def messages(self) -> MessageView:
        """The messages in transcript order."""
        return MessageView(self._lines, self._count)

    def event(self, index: int) -> Event:
        """Give the event behind the message at an index of 0 to len - 1."""
        return self._lines[index][0]

    def lines(self) -> list[tuple[Event, Message]]:
        """Give events and their messages in transcript order."""
        return self._lines[: self._count]

    def surface(self) -> tuple[Event, ...]:
        """Give the visible surface events in transcript order, a ``cleared`` one among them."""
        events = [event for event, _ in self.lines()]
        if self._cleared is not None:
            events.append(self._cleared)
            events.sort(key=_order)
        return tuple(events)

    def extended(self, events: Iterable[Event]) -> "Fold":
        """Give the fold of a log that goes on with these events."""
        lines, count, cleared = self._lines, self._count, self._cleared
        owned = False  # whether the list is ours alone, so that it may be changed in the middle
        for event in events:
            if event.type not in SURFACE_TYPES:
                continue
            op = event.surface_op
            if event.type == "cleared":
                lines, count, cleared, owned = [], 0, event, True
                continue
            line = (event, project(event))
            if op is None and (count == 0 or lines[count - 1][0].position <= event.seq):
                if len(lines) != count:
                    lines, owned = lines[:count], True
                lines.append(line)
                if lines[count] is not line:
                    # Another thread extended the same fold between the two lines above: its list, our copy.
                    lines, owned = [*lines[:count], line], True
                count += 1
                continue
            if not owned:
                lines, owned = lines[:count], True
            start, stop = op or (event.seq, -1)
            first = (bisect_left if op else bisect_right)(lines, start, key=_line_position)
            last = bisect_right(lines, stop, lo=first, key=_line_position) if op else first
            lines[first:last] = [line]
            count = len(lines)
            if cleared is not None and op is not None and start <= cleared.position <= stop:
                cleared = None
        return Fold(lines, count, cleared)


def _line_position(line: tuple[Event, Message]) -> int:
    return line[0].position


def _order(event: Event) -> tuple[int, int]:
    return event.position, event.seq

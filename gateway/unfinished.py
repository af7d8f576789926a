"""A message that is still being written: its text so far, whole code points of it, and how it is sealed."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gateway.codec import encode_json
from gateway.context.messages import Message, ToolCall
from gateway.errors import EventRefusedError
from gateway.types import new_id

__all__ = ["ID_PATTERN", "UnfinishedMessage", "UnfinishedMessages", "call_in_text", "in_text", "sealed", "whole"]

ID_PATTERN = re.compile(r"[!-~]{1,1000}\Z")
"""What the store takes as the id of a run or a message."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class UnfinishedMessage:
    """The parts of one unfinished message, as its run sent them.

    Args:
        id: The message's id.

    """

    def __init__(self, id: str) -> None:
        self.id = id
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[int, tuple[dict[str, str], list[str]]] = {}
        self._halves: dict[str | int, str] = {}
        self._thinking_since: float | None = None
        self._thought = 0.0

    @property
    def thinking_ms(self) -> int | None:
        """How long it thought, from the first thinking to what followed, in ms; None where it did not."""
        return None if self._thinking_since is None else round((self._thought - self._thinking_since) * 1000)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written to it."""
        return not (self._text or self._thinking or self._calls or self._halves)

    def add_text(self, text: str, *, now: float) -> str:
        """Add text; returns what of it is whole and may be published.

        Args:
            text: Any cut of a text, in the middle of a surrogate pair too.
            now: A monotonic clock, in seconds.

        """
        self._end_thinking(now)
        return self._keep("text", self._text, text)

    def add_thinking(self, text: str, *, now: float) -> str:
        """Add thinking, as `add_text` does."""
        if self._thinking_since is None:
            self._thinking_since = now
        self._thought = now
        return self._keep("thinking", self._thinking, text)

    def add_call(self, index: int, text: str, names: dict[str, str], *, now: float) -> str:
        """Add a piece of a tool call's arguments, as `add_text` does, and its id and name where they are known."""
        self._end_thinking(now)
        known, pieces = self._calls.setdefault(index, ({}, []))
        known.update(names)
        return self._keep(index, pieces, text)

    def seal(self, *, interrupted: bool) -> Message:
        """Make the message of what is there; a half of a character that never became whole is U+FFFD."""
        calls = [
            (names.get("id"), names.get("name"), self._closed(index, pieces))
            for index, (names, pieces) in sorted(self._calls.items())
        ]
        return sealed(
            text=self._closed("text", self._text),
            thinking=self._closed("thinking", self._thinking),
            calls=calls,
            interrupted=interrupted,
            thinking_ms=self.thinking_ms,
        )

    def _end_thinking(self, now: float) -> None:
        if self._thinking_since is not None and not self._text and not self._calls:
            self._thought = now

    def _keep(self, part: str | int, pieces: list[str], text: str) -> str:
        text = self._halves.pop(part, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[part] = text[-1]
            text = text[:-1]
        text = whole(text)
        if text:
            pieces.append(text)
        return text

    def _closed(self, part: str | int, pieces: list[str]) -> str:
        return "".join(pieces) + ("\ufffd" if part in self._halves else "")


class UnfinishedMessages:
    """The unfinished messages of one run; nearly always one."""

    def __init__(self) -> None:
        self._open: dict[str, UnfinishedMessage] = {}
        self._closed: set[str] = set()
        """Ids of ended messages: a late delta would open one again, for ever."""
        self.last: str | None = None
        """The id of the message that ended last."""

    def __iter__(self) -> Iterator[UnfinishedMessage]:
        """Go through those that anything was written to."""
        return (opened for opened in self._open.values() if not opened.is_empty)

    @property
    def newest(self) -> str | None:
        """The id of the message that was opened last; None where none is open."""
        return next(reversed(self._open), None)

    def opened(self, message: str | None) -> UnfinishedMessage:
        """Give an open message, opening it if need be.

        Args:
            message: Its id; None is the newest's, or a new one.

        Raises:
            EventRefusedError: It has ended, or the id is none.

        """
        name = message or self.newest or new_id()
        opened = self._open.get(name)
        if opened is None:
            if name in self._closed:
                raise EventRefusedError(f"message {name!r:.80} has ended; nothing can be added to it")
            if not ID_PATTERN.match(name):
                raise EventRefusedError(f"expected a message id of visible ASCII characters, got {name!r:.80}")
            opened = self._open[name] = UnfinishedMessage(name)
        return opened

    def close(self, message: str) -> None:
        """Note that a message has ended."""
        self._open.pop(message, None)
        self._closed.add(message)
        self.last = message


def sealed(
    *,
    text: str,
    thinking: str,
    calls: Iterable[tuple[str | None, str | None, str]],
    interrupted: bool,
    thinking_ms: int | None = None,
) -> Message:
    """Make a message of open parts.

    A tool call stays a call only where it is whole: its id, its name and arguments that are a JSON object. What
    there is of another is kept in ``metadata.partial_tool_calls``, where nobody runs it.

    Args:
        text: Its text; "" for none.
        thinking: Its thinking; "" for none.
        calls: Of each call the id, the name and the arguments' text so far.
        interrupted: It was cut off.
        thinking_ms: How long it thought; None where that is not known.

    """
    metadata: dict[str, Any] = {}
    if interrupted:
        metadata["interrupted"] = True
    if thinking_ms is not None:
        metadata["thinking_ms"] = thinking_ms
    kept: list[ToolCall] = []
    partial: list[dict[str, str | None]] = []
    for call, name, arguments in calls:
        if call and name and _is_object(arguments):
            kept.append(ToolCall(id=call, name=name, arguments=arguments))
        else:
            partial.append({"id": call, "name": name, "arguments": arguments})
    if partial:
        metadata["partial_tool_calls"] = partial
    return Message.assistant(text, thinking=thinking or None, tool_calls=tuple(kept) or None, metadata=metadata)


def whole(text: str) -> str:
    """Join the surrogate pairs of a text and replace lone halves by U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def in_text(message: Message) -> Message:
    """Give a message with whole characters and its tool calls' arguments as JSON text."""
    changes: dict[str, Any] = {}
    if isinstance(message.content, str):
        changes["content"] = whole(message.content)
    if message.thinking is not None:
        changes["thinking"] = whole(message.thinking)
    if message.tool_calls:
        changes["tool_calls"] = tuple(call_in_text(call) for call in message.tool_calls)
    return msgspec.structs.replace(message, **changes)


def call_in_text(call: ToolCall) -> ToolCall:
    """Give a tool call with its arguments as JSON text."""
    given = call.arguments
    text = whole(given) if isinstance(given, str) else encode_json({} if given is None else given).decode()
    return msgspec.structs.replace(call, arguments=text)


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False

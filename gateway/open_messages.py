"""The messages that are still being written (PROTOCOL.md 5.1, `open`)."""

from collections.abc import Set as AbstractSet
from io import StringIO
from typing import Any

from gateway.state import OpenMessage

__all__ = ["OpenMessages"]


class _Call:
    """A tool call whose arguments are still coming."""

    __slots__ = ("id", "name", "text")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.text = StringIO()


class _Message:
    """An unfinished message.

    Texts grow in buffers: a string would be copied for every delta, and a list of the pieces costs a multiple of the
    text in memory.
    """

    __slots__ = ("calls", "interrupted", "run", "text", "thinking")

    def __init__(self, run: str | None) -> None:
        self.run = run
        self.text = StringIO()
        self.thinking = StringIO()
        self.interrupted = False
        self.calls: dict[int, _Call] = {}


class OpenMessages:
    """Unfinished messages by id, in order of first appearance; a delta costs its own length."""

    def __init__(self) -> None:
        self._messages: dict[str, _Message] = {}

    def restore(self, messages: list[OpenMessage]) -> None:
        """Take over what a snapshot has."""
        for stored in messages:
            message = self._opened(stored.message, stored.run)
            message.text.write(stored.text)
            message.thinking.write(stored.thinking)
            message.interrupted = stored.interrupted
            for call in stored.tool_calls:
                self.add_to_call(
                    stored.message, stored.run, call.index, call_id=call.id, name=call.name, text=call.text
                )

    def add_text(self, message: str, run: str | None, text: str) -> None:
        """Add to the end of a message's text; the first addition of any kind opens it."""
        self._opened(message, run).text.write(text)

    def add_thinking(self, message: str, run: str | None, text: str) -> None:
        """Add to the end of a message's thinking."""
        self._opened(message, run).thinking.write(text)

    def add_to_call(
        self, message: str, run: str | None, index: int, *, call_id: str | None, name: str | None, text: str | None
    ) -> None:
        """Add to the end of a call's arguments; an empty or absent id or name changes none."""
        calls = self._opened(message, run).calls
        call = calls.get(index)
        if call is None:
            call = calls[index] = _Call()
        call.id = call_id or call.id
        call.name = name or call.name
        if text:
            call.text.write(text)

    def end(self, message: str) -> None:
        """Remove a message, if it is open."""
        self._messages.pop(message, None)

    def interrupt(self, runs: AbstractSet[str]) -> None:
        """Mark the messages of these runs: nobody writes them any more."""
        for message in self._messages.values():
            if message.run in runs:
                message.interrupted = True

    def state(self) -> list[dict[str, Any]]:
        """Give them as a snapshot has them."""
        return [
            {
                "message": name,
                "run": message.run,
                "text": message.text.getvalue(),
                "thinking": message.thinking.getvalue(),
                "interrupted": message.interrupted,
                "tool_calls": [
                    {"index": index, "id": call.id, "name": call.name, "text": call.text.getvalue()}
                    for index, call in message.calls.items()
                ],
            }
            for name, message in self._messages.items()
        ]

    def _opened(self, message: str, run: str | None) -> _Message:
        found = self._messages.get(message)
        if found is None:
            found = self._messages[message] = _Message(run)
        return found

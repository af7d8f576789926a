"""Messages of people that wait for the agent, as the run of their topic knows them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from gateway.broker.port import Change, Condition
from gateway.codec import encode_json
from gateway.context.content import ContentPart
from gateway.context.messages import Message
from gateway.outbox import Outgoing
from gateway.recorder import Recorder, outgoing

__all__ = ["SUPERSEDED", "WaitingMessage", "WaitingMessages", "take", "withdrawal"]

SUPERSEDED = "a later message took its place"
"""Why an older message is withdrawn where only the latest is answered."""


class WaitingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One of them.

    Attributes:
        id: Its id.
        content: Text, or a list of content parts as JSON has them.
        by: Who sent it, as the event says.
        stored: Its state field, which is just this for as long as it waits unchanged.

    """

    id: str
    content: Any
    by: Any
    stored: str

    @classmethod
    def of(cls, waiting: Mapping[str, Any]) -> "WaitingMessage":
        """Make one of an entry of a mirror's queue, or of its event."""
        content = waiting.get("content")
        return cls(id=waiting["id"], content=content, by=waiting.get("by"), stored=encode_json(content).decode())

    @property
    def condition(self) -> Condition:
        """It still waits, unchanged."""
        return Condition(field=f"m:{self.id}", op="=", value=self.stored)

    @property
    def removal(self) -> Change:
        """It waits no more."""
        return Change(field=f"m:{self.id}", value="")

    def edited(self, stored: str) -> "WaitingMessage":
        """Give the message as the store has it: edited since, or written by another encoder."""
        return msgspec.structs.replace(self, stored=stored, content=msgspec.json.decode(stored))

    def message(self) -> Message:
        """Give it as it enters the context."""
        content = self.content
        parts = tuple(ContentPart.from_raw(part) for part in content) if isinstance(content, list) else str(content)
        return Message.user(parts, metadata={} if self.by is None else {"by": self.by})


class WaitingMessages:
    """Those of one topic, oldest first; kept from its events. It decides and never waits."""

    def __init__(self, queue: Iterable[Mapping[str, Any]] = ()) -> None:
        self._waiting = {entry["id"]: WaitingMessage.of(entry) for entry in queue}

    def __iter__(self) -> Iterator[WaitingMessage]:
        return iter(tuple(self._waiting.values()))

    def __len__(self) -> int:
        return len(self._waiting)

    def heard(self, event: Mapping[str, Any]) -> WaitingMessage | None:
        """Follow an event; returns the message where one has come that was not there."""
        name = event.get("id")
        if not isinstance(name, str):
            return None
        match event["type"]:
            case "message_queued" if name not in self._waiting:
                self._waiting[name] = WaitingMessage.of(event)
                return self._waiting[name]
            case "message_edited" if name in self._waiting:
                by = self._waiting[name].by
                self._waiting[name] = msgspec.structs.replace(WaitingMessage.of(event), by=by)
            case "message_withdrawn" | "message_taken":
                self._waiting.pop(name, None)
        return None

    def update(self, message: WaitingMessage, stored: str) -> None:
        """Note how a message was found in the store.

        Args:
            message: As it was known.
            stored: Its state field; "" where it waits no more.

        """
        if not stored:
            self._waiting.pop(message.id, None)
        elif message.id in self._waiting:
            self._waiting[message.id] = message.edited(stored)


def take(message: WaitingMessage, recorder: Recorder, *, run: str, at: int) -> list[Outgoing]:
    """Record that a message goes into a run's context, and give the events of it.

    Args:
        message: The message.
        recorder: Of the run.
        run: The run's id.
        at: Unix time in ms.

    """
    event = {"type": "message_taken", "at": at, "run": run, "id": message.id}
    taken = outgoing(event if message.by is None else {**event, "by": message.by})
    return [taken, *recorder.record(recorder.context.add_message(message.message()), at=at, message=message.id)[0]]


def withdrawal(message: WaitingMessage, *, run: str, at: int, reason: str) -> Outgoing:
    """Give the event that a run takes a message out of the queue without an answer.

    Args:
        message: The message.
        run: The run's id.
        at: Unix time in ms.
        reason: Why, for people.

    """
    return outgoing({"type": "message_withdrawn", "at": at, "run": run, "id": message.id, "reason": reason})

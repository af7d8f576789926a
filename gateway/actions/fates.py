"""What became of what a person's action was about, once it is past acting on (DESIGN.md 3, law 8)."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gateway.actions.store import ActionStore, placed
from gateway.broker.port import History
from gateway.codec import decode_event, encode_json
from gateway.errors import SnapshotError
from gateway.mirror import Mirror
from gateway.types import START, Position, Topic

__all__ = ["UNKNOWN", "Fates", "MessageFate"]

PAGE = 1000
"""Events of one read."""

_ENDS = {
    "agent_complete": "completed",
    "agent_error": "failed",
    "agent_cancelled": "cancelled",
    "agent_lost": "lost",
}
UNKNOWN = "unknown"
"""How a run ended of which nothing but that is left."""


class MessageFate(msgspec.Struct, frozen=True, kw_only=True):
    """How a message's waiting ended.

    Attributes:
        status: It was taken into a run, or taken back.
        run: The run that took it; "" for a withdrawn one.
        by: Who withdrew it; None where it was no person.
        reason: Why a run or a worker withdrew it; None where there is nothing to say.
        position: Of the event that says so; None where only its trace in the context is left.

    """

    status: Literal["taken", "withdrawn"]
    run: str = ""
    by: Any = None
    reason: Any = None
    position: Position | None = None

    @property
    def withdrawal(self) -> dict[str, Any]:
        """What answers tell of one that was withdrawn."""
        told = {"status": "withdrawn", "by": self.by, **placed(self.position)}
        return told if self.reason is None else {**told, "reason": self.reason}


class Fates:
    """Looks up ends: in the state fields' own words first, then in the history, then in the stored snapshot."""

    def __init__(self, store: ActionStore) -> None:
        """Make it over the store of the actions."""
        self._store = store

    async def ended_run(self, topic: Topic, run: str, fate: str) -> str | None:
        """Say how a run ended.

        Args:
            topic: Where.
            run: The run's id.
            fate: Its state field: ``end <epoch> <first> <last>``, or "" where it is absent.

        Returns:
            ``completed``, ``failed``, ``cancelled`` or ``lost``; ``unknown`` where it ended so long ago that nobody
            can tell; None where no such run is known.

        """
        if fate:
            _, epoch, _first, last = fate.split(" ")
            offset = int(last)
            history = await self._store.read(topic, Position(epoch=epoch, offset=offset - 1), limit=1)
            if history.complete and history.events and history.events[0].offset == offset:
                return _ENDS.get(decode_event(history.events[0].data)["type"], UNKNOWN)
        else:
            history = await self._store.read(topic, START, limit=0)
        for entry in _state(topic, history).get("runs", ()):
            if entry["run"] == run and entry["status"] in _ENDS.values():
                return str(entry["status"])
        return UNKNOWN if fate else None

    async def decision(self, topic: Topic, run: str, call: str) -> tuple[str, Any] | None:
        """Give the decision, and who made it, of an approval that the state has forgotten; None where none is known."""
        history = await self._store.read(topic, START, limit=0)
        for entry in _state(topic, history).get("approvals", ()):
            if entry["run"] == run and entry["tool_call_id"] == call and entry["decision"] is not None:
                return entry["decision"], entry["by"]
        return None

    async def message(self, topic: Topic, message: str) -> MessageFate | None:
        """Find how a message's waiting ended; None where no such message is known.

        Only a person who acts on a message that waits no more makes this search through what is stored of the topic.
        """
        needle = encode_json(message)
        while True:
            history = await self._store.read(topic, START, limit=PAGE)
            for entry in _state(topic, history).get("context", {}).get("events", ()):
                if entry["type"] == "user_message" and entry["message"] == message and entry["run"]:
                    return MessageFate(status="taken", run=entry["run"])
            while True:
                found = _found(history, message, needle)
                if found is not None:
                    return found
                if history.upto >= history.top:
                    return None
                position = Position(epoch=history.epoch, offset=history.upto)
                history = await self._store.read(topic, position, limit=PAGE)
                if not history.complete:
                    break  # trimmed or rolled back between two pages: begin again


def _found(history: History, message: str, needle: bytes) -> MessageFate | None:
    for stored in history.events:
        # Most events are other ones, and a look into the bytes costs a fraction of decoding them.
        if needle not in stored.data or not (b"message_taken" in stored.data or b"message_withdrawn" in stored.data):
            continue
        event = decode_event(stored.data)
        if event.get("id") != message:
            continue
        position = Position(epoch=history.epoch, offset=stored.offset)
        if event.get("type") == "message_taken":
            return MessageFate(status="taken", run=event.get("run", ""), position=position)
        if event.get("type") == "message_withdrawn":
            by, reason = event.get("by"), event.get("reason")
            return MessageFate(status="withdrawn", by=by, reason=reason, position=position)
    return None


def _state(topic: Topic, history: History) -> Mapping[str, Any]:
    """Give the state in a topic's stored snapshot, {} where there is none."""
    if history.snapshot is None:
        return {}
    snapshot = msgspec.json.decode(history.snapshot)
    if not isinstance(snapshot, dict):
        raise SnapshotError(f"expected the stored snapshot of {topic} to be an object")
    return Mirror.restore(snapshot).state()

"""A topic as the store has it now: its mirror, and where a run that goes on from there begins."""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.blobs import filled, hashes
from gateway.broker.port import Broker, History
from gateway.codec import decode_event
from gateway.context.context import Context
from gateway.errors import SnapshotError
from gateway.event_types import LOGGED_TYPES
from gateway.journal import EarlierLog
from gateway.mirror import CONTEXT_FIELDS, Mirror
from gateway.session_log import LogEntry, entry_of
from gateway.types import START, Position, Publication, Topic

__all__ = ["TopicState", "load_values", "read_topic"]

_logger = logging.getLogger(__name__)

_PAGE = 1000


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    """What one reading of a topic found.

    Attributes:
        topic: Its name.
        mirror: Its state at the top.
        seq: The log's next seq there.
        hash: The log's chain hash there.
        earlier: The last logged events.
        size: Bytes of the history there.
        values: Hash -> large value of the conversation, as far as they were loaded.

    """

    topic: Topic
    mirror: Mirror
    seq: int
    hash: str
    earlier: EarlierLog
    size: int
    values: Mapping[str, str] = {}

    @property
    def position(self) -> Position:
        """Where it stands."""
        return self.mirror.position

    def context(self) -> Context:
        """Give the conversation, with the large values that were loaded; of others the preview stands for the whole."""
        state = self.mirror.context
        if self.values:
            state["events"] = [
                {**entry, "data": filled(entry["data"], entry["blobs"], self.values)} if "blobs" in entry else entry
                for entry in state["events"]
            ]
            state["tool_calls"] = [_whole_call(call, self.values) for call in state["tool_calls"]]
        return Context.deserialize({**state, "next_seq": self.seq})

    def references(self) -> set[str]:
        """Give the hashes of the conversation's large values."""
        state = self.mirror.context
        owners = [*state["events"], *(call for call in state["tool_calls"] if isinstance(call, dict))]
        return {name for owner in owners for name in hashes(owner.get("blobs"))}


async def read_topic(broker: Broker, topic: Topic, *, log: dict[int, LogEntry] | None = None) -> TopicState:
    """Read a topic up to its top, without its large values.

    Args:
        broker: Where it is.
        topic: The topic.
        log: Takes every logged event that the history still holds, shadowed ones too, by its seq; None for none.

    Raises:
        BrokerUnavailableError: The broker is away.

    """
    while True:
        history = await broker.read(topic, START, limit=_PAGE)
        mirror = _begun(topic, history)
        earlier = EarlierLog()
        if log is not None:
            log.clear()
            log.update((entry["seq"], entry) for entry in mirror.context["events"])
        while True:
            _fold(mirror, earlier, history, log)
            if mirror.offset >= history.top:
                earlier.told = _told(mirror)
                return TopicState(
                    topic=topic,
                    mirror=mirror,
                    seq=history.seq,
                    hash=history.hash,
                    earlier=earlier,
                    size=history.size,
                )
            history = await broker.read(topic, mirror.position, limit=_PAGE, seen=True)
            if not history.complete or history.epoch != mirror.epoch:
                # Trimmed or rolled back between two pages: begin again, even where the position may go on. The first
                # pages passed over the deltas of messages whose end may be lost now.
                break


async def load_values(broker: Broker, state: TopicState) -> TopicState:
    """Load the large values of a topic's conversation; one that is gone is passed over.

    Raises:
        BrokerUnavailableError: The broker is away.

    """
    wanted = state.references()
    if not wanted:
        return state
    found = await broker.blobs(state.topic, sorted(wanted))
    if len(found) < len(wanted):
        _logger.warning("%d large values of topic %s are gone", len(wanted) - len(found), state.topic)
    return msgspec.structs.replace(state, values={name: value.decode() for name, value in found.items()})


def _told(mirror: Mirror) -> dict[str, Any]:
    """Give what `context` events have said, as one such event's fields."""
    context = mirror.context
    fields = {name: context[name] for name in CONTEXT_FIELDS if context[name] is not None}
    calls = context["tool_calls"]
    return {**fields, "tool_calls": {"from": 0, "items": calls}} if calls else fields


def _begun(topic: Topic, history: History) -> Mirror:
    if history.complete:
        return Mirror(topic, history.epoch, 0)
    if history.snapshot is None:
        return Mirror(topic, history.epoch, history.floor)
    snapshot = msgspec.json.decode(history.snapshot)
    if not isinstance(snapshot, dict):
        raise SnapshotError(f"expected the stored snapshot of {topic} to be an object")
    mirror = Mirror.restore(snapshot)
    mirror.resume(history.epoch)
    return mirror


def _whole_call(call: Any, values: Mapping[str, str]) -> Any:
    if not isinstance(call, dict) or "blobs" not in call:
        return call
    whole = filled(call, call["blobs"], values)
    return {name: value for name, value in whole.items() if name != "blobs"}


def _fold(mirror: Mirror, earlier: EarlierLog, history: History, log: dict[int, LogEntry] | None) -> None:
    for stored in history.events:
        event: dict[str, Any] = decode_event(stored.data)
        # Holes above the floor are deltas of ended messages (STORE.md 4): the event stands for them too.
        mirror.apply(Publication(offset=stored.offset, data=event, first=mirror.offset + 1))
        earlier.add(event, stored.data)
        if log is not None and event.get("type") in LOGGED_TYPES:
            entry = entry_of(event)
            if entry is not None:
                log.setdefault(entry["seq"], entry)
    mirror.offset = max(mirror.offset, history.upto)

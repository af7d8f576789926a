"""A topic as the store has it now: its mirror, and where a run that goes on from there begins."""

from typing import Any

import msgspec

from gateway.broker.port import Broker, History
from gateway.codec import decode_event
from gateway.context.context import Context
from gateway.errors import SnapshotError
from gateway.journal import EarlierLog
from gateway.mirror import Mirror
from gateway.types import START, Position, Publication, Topic

__all__ = ["TopicState", "read_topic"]

_PAGE = 1000


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    """What one reading of a topic found.

    Attributes:
        topic: Its name.
        mirror: Its state at the top.
        seq: The log's next seq there.
        hash: The log's chain hash there.
        earlier: The last logged events.

    """

    topic: Topic
    mirror: Mirror
    seq: int
    hash: str
    earlier: EarlierLog

    @property
    def position(self) -> Position:
        """Where it stands."""
        return self.mirror.position

    def live_runs(self) -> list[str]:
        """Give the ids of the topic's own runs that have no end yet; a sub-agent, which has a topic, ends elsewhere."""
        runs = self.mirror.state()["runs"]
        return [run["run"] for run in runs if run["status"] in {"running", "cancelling"} and run["topic"] is None]

    def context(self) -> Context:
        """Give the conversation."""
        return Context.deserialize({**self.mirror.state()["context"], "next_seq": self.seq})


async def read_topic(broker: Broker, topic: Topic) -> TopicState:
    """Read a topic up to its top.

    Raises:
        BrokerUnavailableError: The broker is away.

    """
    while True:
        history = await broker.read(topic, START, limit=_PAGE)
        mirror = _begun(topic, history)
        earlier = EarlierLog()
        while True:
            _fold(mirror, earlier, history)
            if mirror.offset >= history.top:
                return TopicState(topic=topic, mirror=mirror, seq=history.seq, hash=history.hash, earlier=earlier)
            history = await broker.read(topic, mirror.position, limit=_PAGE, seen=True)
            if not history.complete:
                break  # trimmed or rolled back between two pages: begin again
            mirror.resume(history.epoch)


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


def _fold(mirror: Mirror, earlier: EarlierLog, history: History) -> None:
    for stored in history.events:
        event: dict[str, Any] = decode_event(stored.data)
        # Holes above the floor are deltas of ended messages (STORE.md 4): the event stands for them too.
        mirror.apply(Publication(offset=stored.offset, data=event, first=mirror.offset + 1))
        earlier.add(event, stored.data)
    mirror.offset = max(mirror.offset, history.upto)

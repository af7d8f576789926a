"""Folded states of topics, made when somebody asks and kept within a bound."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from gateway.broker.port import Broker, History
from gateway.codec import decode_event, encode_json
from gateway.frames import PIECE_BYTES
from gateway.histories import PAGE
from gateway.measures import Measures
from gateway.merging import publications_of
from gateway.mirror import Mirror
from gateway.recovery import missed_after, publication
from gateway.snapshot import Snapshot
from gateway.topic import HubTopic
from gateway.types import START, Position, Topic
from gateway.view import View

__all__ = ["Folds"]

FOLD_BATCH = 256
"""Events folded before the loop may turn to something else."""


class Folds:
    """Keeps one mirror per topic that was asked for; readers at one place share one encoding."""

    def __init__(
        self,
        broker: Broker,
        *,
        limit: int,
        sync: Callable[[HubTopic], asyncio.Task[None]],
        measures: Measures | None = None,
    ) -> None:
        """Make an empty keeper.

        Args:
            broker: Where histories are read.
            limit: Bytes of all kept states together, as their snapshots count; used longest ago goes first.
            sync: Has the hub read a topic whose epoch it does not know yet.
            measures: Where it counts; None for measures of its own.

        """
        self._broker = broker
        self.limit: int = limit
        self._measures = measures or Measures()
        self._sync = sync
        self._sizes: OrderedDict[HubTopic, int] = OrderedDict()  # used longest ago first
        self.size: int = 0  # bytes of all kept states together

    async def snapshot(self, topic: HubTopic, view: View | None = None) -> Snapshot:
        """Fold a topic up to its top; the last snapshot is given again where little has come since.

        Args:
            topic: The topic.
            view: The rules by which it is seen; None shows everything.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """
        return (await self._recent(topic)).seen(view)

    async def _recent(self, topic: HubTopic) -> Snapshot:
        async with topic.folding:
            last = topic.snapshot
            near = last is not None and topic.ring.reaches(last.offset)
            if last is not None and near and topic.ring.bytes_since(last.offset) <= min(last.size, PIECE_BYTES) // 2:
                self._sizes.move_to_end(topic)
                self._measures.snapshots_shared += 1
                return last
            return self._encode(topic, await self._folded(topic))

    async def mirror(self, topic: HubTopic) -> tuple[Snapshot, Mirror]:
        """Give the snapshot at the top together with the mirror it was made of; use both before waiting again.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """
        async with topic.folding:
            mirror = await self._folded(topic)
            last = topic.snapshot
            if last is None or last.offset != mirror.offset:
                last = self._encode(topic, mirror)
            return last, mirror

    async def state(self, topic: HubTopic) -> Mirror:
        """Give the mirror at the top; use it before waiting again. It is kept only where its snapshot is.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """
        async with topic.folding:
            mirror = await self._folded(topic)
            if topic not in self._sizes:
                topic.mirror = None
            return mirror

    def forget(self, topic: HubTopic) -> None:
        """Drop what is kept of a topic."""
        self.size -= self._sizes.pop(topic, 0)
        topic.mirror = topic.snapshot = None

    def _encode(self, topic: HubTopic, mirror: Mirror) -> Snapshot:
        text = encode_json(mirror.snapshot())
        snapshot = Snapshot(topic=topic.name, epoch=mirror.epoch, offset=mirror.offset, text=text)
        topic.snapshot = snapshot
        self._measures.snapshots_made += 1
        self._measures.snapshot_bytes.add(snapshot.size)
        self.size += snapshot.size - self._sizes.pop(topic, 0)
        self._sizes[topic] = snapshot.size
        while self.size > self.limit and len(self._sizes) > 1:
            self.forget(next(iter(self._sizes)))
        return snapshot

    async def _folded(self, topic: HubTopic) -> Mirror:
        while True:
            mirror = topic.mirror
            if mirror is None or not topic.ring.reaches(mirror.offset):
                mirror = topic.mirror = await self._load(topic)
            if await self._apply_recent(topic, mirror):
                return mirror

    async def _apply_recent(self, topic: HubTopic, mirror: Mirror) -> bool:
        """Apply what the ring holds above the mirror; False where the two do not meet any more."""
        ring = topic.ring
        while topic.mirror is mirror and mirror.offset < ring.end:
            if not ring.reaches(mirror.offset):
                return False
            begin = ring.after(mirror.offset)
            lines = ring.lines[begin : begin + FOLD_BATCH]
            lines[0] = ring.line(begin, mirror.offset)
            for event in publications_of(topic.prefix, lines):
                if mirror.apply(event) == "hole":
                    topic.mirror = None
                    return False
            if len(lines) == FOLD_BATCH:
                await asyncio.sleep(0)
        return topic.mirror is mirror

    async def _load(self, topic: HubTopic) -> Mirror:
        """Fold a topic from the store; again where its history was trimmed or replaced under the reading."""
        while True:
            history = await self._broker.read(topic.name, START, limit=PAGE)
            mirror = _first_mirror(topic.name, history)
            while True:
                for event in missed_after(mirror.offset, history.events):
                    mirror.apply(publication(event, decode_event(event.data)))
                if history.upto >= history.top:
                    break
                await asyncio.sleep(0)
                asked = Position(epoch=mirror.epoch, offset=max(history.upto, mirror.offset))
                following = await self._broker.read(topic.name, asked, limit=PAGE)
                if not following.complete or following.epoch != mirror.epoch:
                    break
                history = following
            if history.upto >= history.top and mirror.epoch == topic.epoch:
                return mirror
            if mirror.epoch != topic.epoch:
                await asyncio.wait([self._sync(topic)])


def _first_mirror(topic: Topic, history: History) -> Mirror:
    """Make the state that a read from the start begins with."""
    if history.complete:
        return Mirror(topic, history.epoch, 0)
    if history.snapshot is None:
        return Mirror(topic, history.epoch, history.floor)
    mirror = Mirror.restore(decode_event(history.snapshot))
    mirror.resume(history.epoch)
    return mirror

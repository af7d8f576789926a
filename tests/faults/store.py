"""What really lies in Redis, read past the broker and its scripts: the truth that readers are compared with."""

import asyncio
import json
from typing import Any

import msgspec
from redis.asyncio import Redis

from gateway.broker.port import Trimmed
from gateway.broker.redis import RedisBroker
from gateway.types import Position, Topic
from tests.faults.model import state_of

__all__ = ["Archive", "History"]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as it is stored.

    Attributes:
        position: Its top.
        floor: What lies at or below it is in the snapshot alone.
        snapshot: That snapshot; b"" while nothing was trimmed.
        events: The stored events above the floor, by offset.

    """

    position: Position
    floor: int
    snapshot: bytes
    events: dict[int, dict[str, Any]]


class Archive:
    """Reads topics, and remembers every event that a trim took out of them.

    Args:
        redis: A connection that has no faults.
        key_prefix: Of the topics.

    """

    def __init__(self, redis: Redis, key_prefix: str) -> None:
        self._redis = redis
        self._prefix = key_prefix
        self._trimmed: dict[bytes, dict[int, dict[str, Any]]] = {}
        """By snapshot: all events up to there."""

    async def stored(self, topic: str) -> History:
        """Read a topic in one transaction."""
        key = f"{self._prefix}:{{{topic}}}"
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hmget(key, "epoch", "d", "floor")
            pipe.xrange(f"{key}:events")
            pipe.xrange(f"{key}:open")
            pipe.get(f"{key}:snap")
            (epoch, counts, floor), events, deltas, snapshot = await pipe.execute()
        if epoch is None:
            return History(position=Position(), floor=0, snapshot=b"", events={})
        found = {int(name.partition(b"-")[0]): json.loads(entry[b"d"]) for name, entry in [*events, *deltas]}
        return History(
            position=Position(epoch=epoch.decode(), offset=int(counts.split(b" ")[0])),
            floor=int(floor),
            snapshot=snapshot.partition(b"\n")[2] if int(floor) else b"",
            events={offset: found[offset] for offset in sorted(found) if offset > int(floor)},
        )

    async def whole(self, topic: str) -> tuple[Position, dict[int, dict[str, Any]]]:
        """Give a topic's top and all its events, those below the floor as they were before they were trimmed."""
        history = await self.stored(topic)
        before = self._trimmed[history.snapshot] if history.floor else {}
        return history.position, before | history.events

    async def state(self, topic: str) -> tuple[Position, dict[str, Any]]:
        """Give a topic's top and the model's state there."""
        position, events = await self.whole(topic)
        return position, state_of([*events.values()])

    async def trim(self, broker: RedisBroker, topic: str) -> bool:
        """Put everything up to the top into a snapshot, which is the model's state; False where it was refused."""
        position, events = await self.whole(topic)
        if not position.offset:
            return False
        state = await asyncio.to_thread(state_of, [*events.values()])
        snapshot = msgspec.json.encode(
            {"topic": topic, "epoch": position.epoch, "offset": position.offset, "mirror": state}
        )
        # Known before it is stored: a history rolled back to right after the trim has to be readable.
        self._trimmed[snapshot] = events
        answer = await broker.trim(Topic(topic), snapshot, position=position, size=0)
        return isinstance(answer, Trimmed)

"""What readers missed, from a topic's ring or from the store."""

import asyncio
from collections.abc import Callable

from gateway.broker.port import Broker
from gateway.frames import PIECE_BYTES, publication_line, with_tags
from gateway.recovery import Missed, judge, take
from gateway.topic import HubTopic
from gateway.types import Position

__all__ = ["PAGE", "Histories", "line_of"]

PAGE = 256
"""Events of one read from the store."""

NEAR = 1024
"""A position so few events below the ring is read from a little earlier: the herd around it finds the ring filled."""


def line_of(prefix: bytes, missed: Missed) -> bytes:
    """Make the push line of a missed event."""
    line = publication_line(prefix, missed.offset, missed.data)
    return with_tags(line, missed.first) if missed.first < missed.offset else line


class Histories:
    """Reads for readers; what one read brings serves those around it too."""

    def __init__(self, broker: Broker, sync: Callable[[HubTopic], asyncio.Task[None]]) -> None:
        """Make a reader of histories; ``sync`` has the hub read a topic whose epoch it does not know yet."""
        self._broker = broker
        self._sync = sync

    async def missed(self, topic: HubTopic, asked: Position) -> tuple[list[bytes], int] | None:
        """Give the first lines above a position and the offset a reader has after them; None where it may not go on.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """
        found = self._recent(topic, asked)
        if found is not None:
            return found
        async with topic.reading:
            found = self._recent(topic, asked)
            if found is not None:
                return found
            missed = await self._read(topic, asked)
        found = self._recent(topic, asked)
        if found is not None:
            return found
        if missed is None:
            return None
        part = missed[: take(missed, PIECE_BYTES)]
        return [line_of(topic.prefix, event) for event in part], part[-1].offset if part else asked.offset

    async def page(self, topic: HubTopic, cursor: int) -> list[Missed] | None:
        """Read what lies above a reader's cursor; nothing where the ring has it by now, None where it is lost.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """
        async with topic.reading:
            if topic.ring.reaches(cursor):
                return []
            missed = await self._read(topic, Position(epoch=topic.epoch, offset=cursor))
            return [] if topic.ring.reaches(cursor) else missed

    def _recent(self, topic: HubTopic, asked: Position) -> tuple[list[bytes], int] | None:
        ring = topic.ring
        if asked.epoch != topic.epoch or not ring.reaches(asked.offset) or asked.offset > ring.end:
            return None
        ring.budget.touch(ring)
        return ring.since(asked.offset, PIECE_BYTES)

    async def _read(self, topic: HubTopic, asked: Position) -> list[Missed] | None:
        generation, ring = topic.generation, topic.ring
        if asked.epoch == topic.epoch and 0 < ring.start - asked.offset <= NEAR - PAGE:
            early = Position(epoch=asked.epoch, offset=max(asked.offset - PAGE, 0))
            history = await self._broker.read(topic.name, early, limit=NEAR)
            missed = judge(early, history)
            if missed is not None and history.epoch == topic.epoch and generation == topic.generation:
                ring.prepend(early.offset, missed)
                if ring.reaches(asked.offset):
                    return []
        history = await self._broker.read(topic.name, asked, limit=PAGE)
        if history.epoch != topic.epoch:
            await asyncio.wait([self._sync(topic)])
        return judge(asked, history)

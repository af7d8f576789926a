"""Brings readers that are behind up to the top, piece by piece."""

import asyncio
from collections import deque

from gateway.folds import Folds
from gateway.frames import PIECE_BYTES, text_frames
from gateway.histories import Histories, line_of
from gateway.measures import Measures
from gateway.merging import merge_lines
from gateway.recovery import Missed, take
from gateway.subscriber import Subscriber
from gateway.summaries import SummaryAudience
from gateway.view import push_lines

__all__ = ["CatchUp"]

SNAPSHOT_WORTH = 256 * 1024
"""Bytes a mirror reader must have missed before a snapshot is considered instead."""


class CatchUp:
    """Chooses and writes the next piece for a reader: parts of a snapshot, merged events, or a snapshot."""

    def __init__(self, histories: Histories, folds: Folds, measures: Measures | None = None) -> None:
        """Make it over what reads and what folds; None counts into measures of its own."""
        self._measures = measures or Measures()
        self._histories = histories
        self._folds = folds

    async def advance(self, subscriber: Subscriber) -> None:
        """Write one piece, of at most about 128 KiB, to a subscriber whose socket takes it.

        Raises:
            BrokerUnavailableError: The piece has to come from the store, and the broker cannot be asked.

        """
        topic = subscriber.topic
        if subscriber not in topic.behind:
            return
        if isinstance(subscriber.audience, SummaryAudience):
            subscriber.audience.renew(subscriber)
        elif subscriber.stale:
            await self._replace(subscriber)
        elif subscriber.parts:
            self._write(subscriber, subscriber.parts.popleft())
        elif subscriber.page:
            self._write_page(subscriber)
        elif topic.ring.reaches(subscriber.cursor):
            missed = topic.ring.bytes_since(subscriber.cursor)
            if not (subscriber.mirror and missed > SNAPSHOT_WORTH and await self._shorten(subscriber, missed // 2)):
                self._write_recent(subscriber)
        else:
            await self._read_page(subscriber)
        if topic.catch_up(subscriber):
            subscriber.reader.caught_up(subscriber)

    def _write(self, subscriber: Subscriber, frames: bytes) -> None:
        self._measures.catch_up_bytes += len(frames)
        subscriber.reader.write(frames)

    def _write_recent(self, subscriber: Subscriber) -> None:
        topic = subscriber.topic
        if subscriber.view is not None:
            self._write_shown(subscriber, topic.ring.missed(subscriber.cursor, PIECE_BYTES))
            return
        lines, last = topic.ring.since(subscriber.cursor, PIECE_BYTES)
        if lines:
            subscriber.cursor = last
            self._write(subscriber, text_frames(merge_lines(topic.prefix, lines)))

    def _write_page(self, subscriber: Subscriber) -> None:
        prefix, page = subscriber.topic.prefix, subscriber.page
        missed = [page.popleft() for _ in range(take(page, PIECE_BYTES))]
        if subscriber.view is not None:
            self._write_shown(subscriber, missed)
            return
        subscriber.cursor = missed[-1].offset
        lines = [line_of(prefix, event) for event in missed]
        self._write(subscriber, text_frames(merge_lines(prefix, lines)))

    def _write_shown(self, subscriber: Subscriber, missed: list[Missed]) -> None:
        """Write what a reader's view shows of a piece; its cursor is told in any case."""
        if subscriber.view is None or not missed:
            return
        prefix, end = subscriber.topic.prefix, missed[-1].offset
        lines = push_lines(prefix, subscriber.view.through(missed, end=end), subscriber.cursor)
        subscriber.cursor = end
        self._write(subscriber, text_frames(merge_lines(prefix, lines)))

    async def _read_page(self, subscriber: Subscriber) -> None:
        topic = subscriber.topic
        generation = topic.generation
        missed = await self._histories.page(topic, subscriber.cursor)
        if topic.generation != generation or subscriber not in topic.behind:
            return
        if missed is not None:
            subscriber.page = deque(missed)
        elif subscriber.mirror:
            subscriber.stale = True
        else:
            topic.dismiss(subscriber, now=asyncio.get_running_loop().time())

    async def _replace(self, subscriber: Subscriber) -> None:
        """Set a mirror reader, whose state cannot be continued, to the state at the top."""
        topic = subscriber.topic
        snapshot = await self._folds.snapshot(topic, subscriber.view)
        if subscriber in topic.behind and snapshot.epoch == topic.epoch:
            subscriber.stale = False
            subscriber.restart(snapshot)

    async def _shorten(self, subscriber: Subscriber, size: int) -> bool:
        """Send a snapshot if it is smaller than ``size`` bytes; False where the events are to be sent."""
        topic = subscriber.topic
        generation, cursor = topic.generation, subscriber.cursor
        snapshot = await self._folds.snapshot(topic, subscriber.view)
        if topic.generation != generation or subscriber not in topic.behind or not topic.ring.reaches(cursor):
            return True  # nothing was sent; the next step sees how things stand
        if snapshot.size >= size or snapshot.offset <= cursor:
            return False
        subscriber.restart(snapshot)
        return True

"""Topics with news, in line for their readers."""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from operator import length_hint
from time import perf_counter
from typing import Any, Protocol

from gateway.measures import Measures
from gateway.subscriber import Reader, Subscriber

__all__ = ["SLICE", "Fanout"]

SLICE = 1000
"""Readers served before the loop may turn to something else."""


class _Ended(Protocol):
    @property
    def end(self) -> int: ...


class Served(Protocol):
    """What has readers: a topic, or those of a topic who see it by the same rules."""

    dirty: bool
    live: dict[Subscriber, None]
    turn: list[Subscriber]
    turn_index: int
    turn_end: int

    @property
    def ring(self) -> _Ended:
        """What its readers get; `end` is where they stand when they have everything."""

    @property
    def audiences(self) -> Mapping[Any, Any]:
        """Who else wants to know of its news."""

    def stir(self) -> None:
        """Tell them."""

    def frames(self, cursor: int) -> bytes:
        """Give the websocket frames that bring a reader at a cursor to the end; b"" where it is too far behind."""

    def fall_behind(self, subscriber: Subscriber) -> None:
        """Keep only the cursor of a subscriber."""


class Fanout:
    """Writes what is new to the readers at the head, in slices."""

    def __init__(self, measures: Measures | None = None) -> None:
        """Make an empty line; None counts into measures of its own."""
        self.measures: Measures = measures or Measures()
        self.line: deque[Served] = deque()  # topics with news; whoever puts one in marks it as dirty
        self._scheduled: bool = False

    def add(self, topic: Served) -> None:
        """Put a topic in the line; `flush` follows in the same tick."""
        if not topic.dirty:
            topic.dirty = True
            self.line.append(topic)

    def schedule(self, topic: Served) -> None:
        """Put a topic in the line and flush in the next tick."""
        self.add(topic)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def flush(self) -> None:
        """Serve one slice of readers; the rest of a large fan-out goes to the end of the line.

        While slices are waiting for their turn, this waits for it too.
        """
        if self.line and not self._scheduled:
            self._turn()

    def _turn(self) -> None:
        self._scheduled = False
        room = SLICE
        line = self.line
        # A connection that reads several of the topics gets one write.
        alone = len(line) == 1
        gathered: list[Reader] = []
        began = perf_counter()
        size = writes = events = 0
        while line and room > 0:
            topic = line.popleft()
            live, end = topic.live, topic.ring.end
            if len(live) == 1 and not topic.turn:
                # A chat: nothing is shared, so nothing is kept to be.
                room -= 1
                topic.dirty = False
                (subscriber,) = live
                cursor = subscriber.cursor
                if cursor < end:
                    frames = topic.frames(cursor)
                    if frames:
                        subscriber.cursor = end
                        writes += 1
                        size += len(frames)
                        events += end - cursor
                        if alone or (pending := (reader := subscriber.reader).pending) is None:
                            write = subscriber.write
                            write(frames)
                        else:
                            if not pending:
                                gathered.append(reader)
                            pending.append(frames)
                    else:
                        topic.fall_behind(subscriber)
                if topic.audiences:
                    topic.stir()
                continue
            batch = self._slice(topic, room) if topic.turn or len(live) > room else list(live)
            room -= len(batch) or 1
            last_cursor, frames = -1, b""
            # What was written is counted where the frame changes, not for each reader.
            readers = iter(batch)
            ahead, skipped = len(batch), 0
            # Written out instead of called: this is done for every event and reader.
            for subscriber in readers:
                cursor = subscriber.cursor
                if cursor != last_cursor:
                    if cursor >= end:
                        skipped += 1
                        continue
                    left = length_hint(readers) + 1
                    if frames:
                        served = ahead - left - skipped
                        writes += served
                        size += served * len(frames)
                        events += served * (end - last_cursor)
                    ahead, skipped = left, 0
                    last_cursor, frames = cursor, topic.frames(cursor)
                if not subscriber.live:
                    skipped += 1
                    continue
                if not frames:
                    topic.fall_behind(subscriber)
                    continue
                subscriber.cursor = end
                if alone or (pending := (reader := subscriber.reader).pending) is None:
                    write = subscriber.write  # a slot: called as a method, Python 3.11 looks it up the slow way
                    write(frames)
                else:
                    if not pending:
                        gathered.append(reader)
                    pending.append(frames)
            if frames:
                served = ahead - skipped
                writes += served
                size += served * len(frames)
                events += served * (end - last_cursor)
            if topic.turn:
                line.append(topic)
            else:
                topic.dirty = False
                if topic.audiences:
                    topic.stir()
        for reader in gathered:
            _write_pending(reader)
        measures = self.measures
        measures.flush_writes += writes
        measures.sent_events += events
        took = perf_counter() - began
        # `Histogram.add` written out: every flush passes here.
        sizes, times = measures.flush_bytes, measures.flush_seconds
        sizes.counts[bisect_left(sizes.bounds, size)] += 1
        sizes.total += size
        times.counts[bisect_left(times.bounds, took)] += 1
        times.total += took
        if line:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _slice(self, topic: Served, room: int) -> list[Subscriber]:
        """Give the readers of a large fan-out whose turn it is, and note where it goes on."""
        end = topic.ring.end
        if not topic.turn:
            topic.turn, topic.turn_index, topic.turn_end = list(topic.live), 0, end
        batch = topic.turn[topic.turn_index : topic.turn_index + room]
        topic.turn_index += len(batch)
        if topic.turn_index == len(topic.turn):
            # What came since it began is news for the first slices.
            topic.turn = list(topic.live) if end > topic.turn_end else []
            topic.turn_index, topic.turn_end = 0, end
        return batch


def _write_pending(reader: Reader) -> None:
    pending = reader.pending
    if not pending:
        return
    if len(pending) == 1:
        reader.write(pending[0])
    else:
        reader.write_all(pending)
    pending.clear()

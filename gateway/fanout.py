"""Topics with news, in line for their readers."""

import asyncio
from collections import deque

from gateway.subscriber import Reader
from gateway.topic import HubTopic

__all__ = ["SLICE", "Fanout"]

SLICE = 1000
"""Readers served before the loop may turn to something else."""


class Fanout:
    """Writes what is new to the readers at the head, in slices."""

    def __init__(self) -> None:
        """Make an empty line."""
        self._line: deque[HubTopic] = deque()
        self._scheduled: bool = False

    def add(self, topic: HubTopic) -> None:
        """Put a topic in the line; `flush` follows in the same tick."""
        if not topic.dirty:
            topic.dirty = True
            self._line.append(topic)

    def schedule(self, topic: HubTopic) -> None:
        """Put a topic in the line and flush in the next tick."""
        self.add(topic)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def flush(self) -> None:
        """Serve one slice of readers; the rest of a large fan-out goes to the end of the line.

        While slices are waiting for their turn, this waits for it too.
        """
        if self._line and not self._scheduled:
            self._turn()

    def _turn(self) -> None:
        self._scheduled = False
        room = SLICE
        line = self._line
        # A connection that reads several of the topics gets one write.
        gathered: dict[Reader, list[bytes]] | None = {} if len(line) > 1 else None
        while line and room > 0:
            topic = line.popleft()
            room -= self._serve(topic, room, gathered)
            if topic.turn:
                line.append(topic)
            else:
                topic.dirty = False
        if gathered:
            for reader, frames in gathered.items():
                reader.write(frames[0] if len(frames) == 1 else b"".join(frames))
        if line:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _serve(self, topic: HubTopic, room: int, gathered: dict[Reader, list[bytes]] | None) -> int:
        """Write what is new to the next readers of a topic; count them."""
        end = topic.ring.end
        if not topic.turn:
            topic.turn, topic.turn_index, topic.turn_end = list(topic.live), 0, end
        batch = topic.turn
        if len(batch) - topic.turn_index > room:
            batch = batch[topic.turn_index : topic.turn_index + room]
            topic.turn_index += room
        elif end > topic.turn_end:
            batch = batch[topic.turn_index :]
            topic.turn, topic.turn_index, topic.turn_end = list(topic.live), 0, end  # news for the first slices
        else:
            batch = batch[topic.turn_index :] if topic.turn_index else batch
            topic.turn = []
        last_cursor, frames = -1, b""
        for subscriber in batch:
            cursor = subscriber.cursor
            if cursor >= end or not subscriber.live:
                continue
            if cursor != last_cursor:
                last_cursor, frames = cursor, topic.frames(cursor)
            if not frames:
                topic.fall_behind(subscriber)
                continue
            subscriber.cursor = end
            if gathered is None:
                subscriber.reader.write(frames)
            else:
                gathered.setdefault(subscriber.reader, []).append(frames)
        return max(len(batch), 1)

"""A reader that takes what there is, or waits for the next news, once."""

import asyncio
from collections.abc import Sequence

import msgspec

from gateway.grants import Identity
from gateway.hub import Hub
from gateway.streaming.pushes import EventPush, SnapshotPiece, read_frames, read_publication, whole_snapshot
from gateway.subscriber import Subscriber
from gateway.types import Position, Topic, new_id
from gateway.view import HIDDEN, View

__all__ = ["News", "Poll"]


class News(msgspec.Struct, frozen=True, kw_only=True):
    """What a poll brought.

    Attributes:
        events: In order; about 64 KiB of them at most.
        position: Where the reader stands after them.
        recovered: The asked position could be continued; None where none was asked.
        snapshot: The state that takes the place of what the reader had, as JSON with ``type`` first; b"" for none.
        up_to_date: There is nothing more right now.

    """

    events: list[EventPush]
    position: Position
    recovered: bool | None
    snapshot: bytes
    up_to_date: bool


class Poll:
    """A reader in the hub until the first news, or until it is told to finish."""

    def __init__(self, hub: Hub, *, identity: Identity) -> None:
        """Make a poll of somebody."""
        self.client: str = new_id()
        self.user: str = identity.user
        self.issued_at: float | None = identity.issued_at
        self.pending: list[bytes] | None = None
        self._hub = hub
        self._items: list[EventPush | SnapshotPiece] = []
        self._taking: bool = True  # nothing has come yet but a snapshot: what comes later is for the next poll
        self._finished = asyncio.Event()

    async def take(self, topic: Topic, *, asked: Position | None, mirror: bool, view: View | None, wait: float) -> News:
        """Give what lies above a position, at once where there is anything.

        Args:
            topic: The topic.
            asked: The position; None for the top.
            mirror: A snapshot is taken where the position cannot be continued, or none was asked.
            view: The rules by which the reader sees the topic.
            wait: Seconds to wait where nothing lies there; 0 does not wait, and tells of all that was written before.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """
        subscriber, reply = await self._hub.join(
            self, topic, asked=asked, mirror=mirror, view=view, current=not wait or asked is None
        )
        recovered: bool | None = reply.get("recovered")
        self._items += [read_publication(bytes(publication)) for publication in reply.get("publications", ())]
        self._taking = not self._items
        snapshot = reply.get("data", {}).get("snapshot")
        epoch, offset = reply["epoch"], reply["offset"]
        if isinstance(snapshot, msgspec.Raw):
            self._items.append(whole_snapshot(bytes(snapshot), epoch=epoch, offset=offset))
        try:
            self._hub.readers[self] = None
            self._hub.enter(subscriber)
            while subscriber.parts:
                await self._hub.advance(subscriber)
            if not self._items and recovered is not False and wait and asked is not None:
                await self._wait(subscriber, wait)
        finally:
            self.finish()
            self._hub.readers.pop(self, None)
            self._hub.leave(subscriber)
        events = [item for item in self._items if isinstance(item, EventPush)]
        if events:
            offset = events[-1].offset
        return News(
            events=[event for event in events if event.data != HIDDEN],
            position=Position(epoch=epoch, offset=offset),
            recovered=recovered,
            snapshot=b"".join(item.text for item in self._items if isinstance(item, SnapshotPiece)),
            up_to_date=subscriber.topic.epoch == epoch and offset >= subscriber.topic.ring.end,
        )

    async def _wait(self, subscriber: Subscriber, wait: float) -> None:
        try:
            async with asyncio.timeout(wait):
                await self._finished.wait()
        except TimeoutError:
            return
        if not self._items and subscriber in subscriber.topic.behind and not subscriber.stale:
            await self._hub.advance(subscriber)  # the news was too much for one flush

    def finish(self) -> None:
        """Wait no longer."""
        self._finished.set()

    # What the hub does (Reader)

    def write(self, frames: bytes) -> None:
        """Take the first news."""
        if self._taking:
            items = list(read_frames(frames))
            self._items += items
            self._taking = not any(isinstance(item, EventPush) for item in items)
            self.finish()

    def write_all(self, frames: Sequence[bytes]) -> None:
        """Take the first news."""
        self.write(b"".join(frames))

    def push(self, line: bytes) -> None:
        """Leave out what tells a websocket to subscribe again: the next poll gets the verdict."""

    def fell_behind(self, subscriber: Subscriber) -> None:
        """Note that there is more than one flush has."""
        self.finish()

    def caught_up(self, subscriber: Subscriber) -> None:
        """Nothing to do: one piece is all it takes."""

    def dropped(self, subscriber: Subscriber) -> None:
        """Note that the history was replaced."""
        self.finish()

    def unsubscribed(self, subscriber: Subscriber, line: bytes) -> None:
        """Wait no longer."""
        self.finish()

    def close(self, code: int, reason: str) -> None:
        """Wait no longer: the next poll is refused where this reader may not read any more."""
        self.finish()

    def tell(self) -> None:
        """Nothing to do: it is not among those who are told."""

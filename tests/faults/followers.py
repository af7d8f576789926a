"""Readers that keep all they are given, to be compared with what is stored."""

import asyncio
from typing import Any

from gateway.client import Client
from gateway.errors import DisconnectError, UnreachableError
from gateway.reader import Update
from gateway.subscription import Subscription
from gateway.types import Position
from tests.faults.tally import Tally

__all__ = ["Follower"]


class Follower:
    """One reader of one topic with a connection of its own, across all that happens to it.

    Args:
        url: Of the gateway, or of a proxy before it.
        topic: The topic.
        mirror: Whether it keeps a mirror; a stock reader is given event by event, as stock clients are.
        tally: Where it counts what it sees.
        late: It begins with the state as it is now, instead of the first event.

    """

    def __init__(self, url: str, topic: str, *, mirror: bool, tally: Tally, late: bool = False) -> None:
        self.url = url
        self.topic = topic
        self.mirror = mirror
        self.events: dict[int, tuple[int, dict[str, Any]]] = {}
        """Since the last snapshot: by offset, the first one it stands for and the event."""
        self.base: tuple[int, dict[str, Any]] | None = None
        """The last snapshot's offset and state; None where it has read from the start."""
        self.position = Position()
        self.snapshots = 0
        """How often it was told that its history cannot be continued, or that a snapshot is the shorter way."""
        self.failure: Exception | None = None
        self._late = late
        self._tally = tally
        self._subscription: Subscription | None = None
        self._reading = asyncio.Event()
        self._reading.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect and read, from where it was."""
        self._task = asyncio.create_task(self._follow())

    async def leave(self) -> None:
        """Go, as a page that is closed; `start` comes back to where it was."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def pause(self) -> None:
        """Take no more updates, so that they pile up in the client."""
        self._reading.clear()

    def resume(self) -> None:
        """Take them again."""
        self._reading.set()

    def stands_at(self, top: Position) -> bool:
        """Whether it has taken everything up to the top, and its gateway says that this is the top's history."""
        received = None if self._subscription is None else self._subscription.reader.position
        return received == top and self.position.offset == top.offset

    def state(self) -> dict[str, Any]:
        """Give the state of its mirror."""
        assert self._subscription is not None
        assert self._subscription.mirror is not None, f"{self.topic}: no snapshot has come"
        return self._subscription.mirror.state()

    async def _follow(self) -> None:
        while True:
            try:
                async with Client(self.url) as client:
                    since = self._since()
                    self._subscription = client.subscribe(self.topic, since=since, mirror=self.mirror)
                    async for update in self._subscription:
                        self._take(update)
                        await self._reading.wait()
            except (UnreachableError, DisconnectError):
                await asyncio.sleep(0.02)  # the first connection is the caller's to repeat
            except Exception as error:
                self.failure = error
                return

    def _since(self) -> Any:
        if self.mirror:
            kept = None if self._subscription is None else self._subscription.mirror
            return kept or (None if self._late else "start")
        return self.position if self.position.epoch else "start"

    def _take(self, update: Update) -> None:
        if self.position.epoch and update.position.epoch != self.position.epoch:
            self._tally.add("epoch change")
        if update.snapshot:
            self._tally.add("snapshot")
            self.snapshots += 1
            self.events.clear()
            self.base = (update.position.offset, update.data["mirror"])
        else:
            if update.first < update.position.offset:
                self._tally.add("merge")
            assert update.position.offset > self.position.offset, "doubled or out of order"
            assert update.first == self.position.offset + 1, "lost"
            self.events[update.position.offset] = (update.first, update.data)
        self.position = update.position

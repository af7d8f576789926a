"""One topic as an async iterator."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from gateway.errors import CommandError
from gateway.mirror import Mirror
from gateway.reader import Lens, Reader, Since, Update
from gateway.types import Publication, Topic

__all__ = ["MAX_QUEUED", "Subscription"]

MAX_QUEUED = 4 * 1024 * 1024
"""Bytes of updates that wait for their taker; beyond, the topic is left and joined again once they are taken."""


class Subscription:
    """The updates of one topic, across reconnects; made by `Client.subscribe`.

    Iterate it (``async for``), inside ``async with`` where the client lives on after it.
    An iteration ends with `aclose` and with the client's end.

    """

    def __init__(
        self,
        topic: Topic,
        *,
        since: Since,
        mirror: bool,
        types: Sequence[str] | None = None,
        lens: Lens = None,
        ask: "Callable[[Subscription], None]",
        leave: "Callable[[Subscription], None]",
    ) -> None:
        self.reader = Reader(topic, since=since, mirror=mirror, types=types, lens=lens)
        self.mirror: Mirror | None = None
        """At the position of the last update taken; None until the first snapshot, or where none is kept."""
        if mirror:
            self.mirror = since if isinstance(since, Mirror) else Mirror(topic) if since == "start" else None
        self.joined = asyncio.Event()
        """Set once the gateway has said where the topic stands."""
        self.refused: CommandError | None = None
        """Why the gateway does not serve the topic for now; it is asked again."""
        self.paused = False
        """Left for now, because what was received waits to be taken."""
        self._ask = ask
        self._leave = leave
        self._queue: deque[tuple[Update, int]] = deque()
        self._queued = 0
        self._arrived = asyncio.Event()
        self._error: Exception | None = None
        self._closed = False

    @property
    def topic(self) -> Topic:
        """The topic."""
        return self.reader.topic

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Update:
        """Wait for the next update.

        Raises:
            CommandError: The gateway refused the subscription for good.
            DisconnectError: It closed the connection with a code that forbids to come back.
            UnreachableError: It answers, but not as a gateway.
            SnapshotError: It sent a snapshot that is none.

        """
        while not self._queue:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise StopAsyncIteration
            if self.paused:
                self.paused = False
                self._ask(self)
            self._arrived.clear()
            await self._arrived.wait()
        update, size = self._queue.popleft()
        self._queued -= size
        if not self.reader.mirror:
            return update
        if update.snapshot:
            self.mirror = Mirror.restore(update.data)
        elif self.mirror is not None:
            if self.mirror.epoch != update.position.epoch:
                self.mirror.resume(update.position.epoch)
            self.mirror.apply(Publication(offset=update.position.offset, data=update.data, first=update.first))
        return msgspec.structs.replace(update, kept=self.mirror)

    def change_lens(self, lens: Lens) -> None:
        """See the topic otherwise from now on; where other types are shown a mirror begins anew, with a snapshot.

        Args:
            lens: As of `Client.subscribe`; to and from ``"summary"`` there is no change.

        Raises:
            ValueError: The subscription is, or shall become, one of a summary.

        """
        if "summary" in (lens, self.reader.lens):
            raise ValueError("expected a subscription of events: one of a summary stays one")
        self.reader.change(lens)
        if not self._closed and not self.paused:
            self._ask(self)

    async def aclose(self) -> None:
        """Leave the topic; what was not taken is dropped."""
        if not self._closed:
            self.end()
            self._queue.clear()
            self._leave(self)

    def deliver(self, updates: Sequence[Update], *, size: int) -> None:
        """Queue what was received; ``size`` is its bytes on the wire."""
        for update in updates:
            self._queue.append((update, size))
            self._queued += size
            size = 0
        if updates:
            self._arrived.set()
        if self._queued > MAX_QUEUED and not self.paused:
            self.paused = True
            self.reader.pause()
            self._leave(self)

    def fail(self, error: Exception) -> None:
        """Raise this from the iteration, once what was received has been taken."""
        self._error = error
        self._arrived.set()

    def end(self) -> None:
        """End the iteration, once what was received has been taken."""
        self._closed = True
        self._arrived.set()

    @property
    def ended(self) -> bool:
        """Whether nothing more will be received."""
        return self._closed or self._error is not None

"""One topic that a bot follows."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gateway.client import Client
from gateway.mirror import Mirror
from gateway.positions import Positions
from gateway.reader import Update
from gateway.subscription import Subscription
from gateway.types import START, Publication, Topic

__all__ = ["Follower", "Handle"]

Handle = Callable[[Update, Mirror | None], Awaitable[None]]
"""Handles an update, the mirror being at it or later; None where no mirrors are kept."""


class Follower:
    """Handles the events of a topic, one after another, and notes how far it got.

    Args:
        client: The connection.
        topic: The topic.
        positions: Where it begins, and notes what is handled.
        handle: Handles an update.
        types: The event types that the gateway is asked for; None for all.
        mirror: Keep the topic's state.

    """

    def __init__(
        self,
        client: Client,
        topic: Topic,
        positions: Positions,
        *,
        handle: Handle,
        types: Sequence[str] | None,
        mirror: bool,
    ) -> None:
        self.topic = topic
        self._client = client
        self._positions = positions
        self._handle = handle
        self._types = types
        self._mirrors = mirror
        self._mirror: Mirror | None = None
        """The topic's state: where the last event stands, or later."""
        self._subscription: Subscription | None = None
        self._closed = False
        self._handling = False
        self._since = asyncio.get_running_loop().time()

    @property
    def quiet_since(self) -> float | None:
        """The loop's time since which nothing has come; None while something may be on its way."""
        subscription = self._subscription
        if self._handling or subscription is None or not subscription.reader.live or not self._client.sure:
            return None
        return self._since

    async def follow(self) -> None:
        """Handle what comes, until `close`.

        Raises:
            CommandError, DisconnectError, UnreachableError, SnapshotError: The gateway refused for good.

        """
        told = False
        while not self._closed:
            if self._mirrors:
                state = await self._state()
                if state is None:
                    return
                if not told:
                    await self._handle(state, self._mirror)
                    told = True
            await self._follow_from_here()

    async def close(self) -> None:
        """Let `follow` return once what it handles is handled."""
        self._closed = True
        if self._subscription is not None:
            await self._subscription.aclose()

    async def _state(self) -> Update | None:
        """Take the topic's present state; None where this was closed meanwhile."""
        async with self._client.subscribe(self.topic) as self._subscription:
            state = await anext(self._subscription, None)
        if state is not None:
            self._mirror = state.mirror
        return state

    async def _follow_from_here(self) -> None:
        """Handle events, until this is closed or the mirror at hand does not lie between two of them."""
        position = self._positions[self.topic] or START
        subscription = self._client.subscribe(self.topic, since=position, mirror=False, types=self._types)
        async with subscription as self._subscription:
            if self._closed:  # while nothing was subscribed
                return
            async for update in subscription:
                self._handling = True
                if self._mirrors and not self._reflects(update):
                    return
                await self._handle(update, self._mirror)
                self._positions[self.topic] = update.position
                self._since = asyncio.get_running_loop().time()
                self._handling = False

    def _reflects(self, update: Update) -> bool:
        """Bring the mirror to an update, if it is not further; False where it cannot be brought there."""
        if update.snapshot or self._mirror is None:
            self._mirror = Mirror.restore(update.data)
            return True
        epoch, offset = update.position.epoch, update.position.offset
        if self._mirror.epoch != epoch:
            # Taken further on, it may hold what the history has lost since.
            if offset <= self._mirror.offset:
                return False
            self._mirror.resume(epoch)
        publication = Publication(offset=offset, data=update.data, first=update.first)
        return self._mirror.apply(publication) != "hole"

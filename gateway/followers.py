"""Which topics a bot follows."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal

from gateway.client import Client
from gateway.errors import CommandError, ErrorCode, GatewayError, SnapshotError
from gateway.follower import Follower, Handle
from gateway.grants import Grant
from gateway.positions import Positions
from gateway.types import Position, Topic, parse_topic

__all__ = ["Followers"]

logger = logging.getLogger(__name__)

POLL = 2.0
"""Seconds between two looks for new topics."""
MAX_FOLLOWED = 500
"""Topics that are followed at a time, fewer than a gateway allows a connection; beyond, quiet ones make room."""
QUIET = 30.0
"""Seconds without an event after which a topic may make room: longer than the gateway's list of topics lags behind."""
TOPS_AT_ONCE = 32
_NEVER = 2**63
"""A time (Unix, ms) at which nothing is written."""


class Followers:
    """Follows the topics that are named, and those that fit a pattern as they come.

    Args:
        client: The connection.
        topics: Names, and patterns in which ``*`` stands for any characters.
        positions: Where to begin, and where to note what is handled.
        handle: Handles an update; called for one topic after another event by event, for several at once.
        since: Where to begin the first time, on the topics that are there already.
        types: The event types that are wanted; None for all.
        mirror: Keep the topics' states.

    """

    def __init__(
        self,
        client: Client,
        topics: Sequence[str],
        positions: Positions,
        *,
        handle: Handle,
        since: Literal["now", "start"],
        types: Sequence[str] | None,
        mirror: bool,
    ) -> None:
        self._client = client
        self._names = [parse_topic(topic) for topic in topics if "*" not in topic]
        # The gateway's grants read patterns the same way.
        self._patterns = [Grant(pattern=topic, verbs=()) for topic in topics if "*" in topic]
        self._positions = positions
        self._handle = handle
        self._since = since
        self._types = types
        self._mirror = mirror
        self._followed: dict[Topic, tuple[Follower, asyncio.Task[None]]] = {}
        self._seen: dict[Topic, int] = {}
        """What the last look found."""
        self._left: dict[Topic, int] = {}
        """Topics that made room, with the time of their last activity then, and those that the gateway refused."""

    @staticmethod
    def check(topics: Sequence[str]) -> None:
        """Check names and patterns.

        Raises:
            ValueError: None is given, or one is none.

        """
        if not topics:
            raise ValueError("expected topics to follow, * for all, got none")
        for topic in topics:
            parse_topic(topic.replace("*", "-"))

    async def begin(self) -> None:
        """Note, the first time, where each topic stands that is there already.

        Raises:
            CommandError, DisconnectError, UnreachableError: The gateway refused for good.

        """
        if self._positions.begun:
            return
        if self._since == "now":
            found = list({*self._names, *(await self._listed() if self._patterns else ())})
            for start in range(0, len(found), TOPS_AT_ONCE):
                await asyncio.gather(*map(self._note_top, found[start : start + TOPS_AT_ONCE]))
        self._positions.begin()

    async def follow(self) -> None:
        """Follow until cancelled, after `begin`; then `close`.

        Raises:
            CommandError, DisconnectError, UnreachableError, SnapshotError: The gateway refused for good.

        """
        for name in self._names:
            self._start(name)
        while True:
            if self._patterns:
                await self._look()
            tasks = [task for _, task in self._followed.values()]
            if tasks:
                await asyncio.wait(tasks, timeout=POLL if self._patterns else None, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(POLL)
            self._part_from_failed()

    async def close(self, *, grace: float) -> None:
        """Read nothing more, and wait for what is being handled; after ``grace`` seconds it is cancelled."""
        followed = list(self._followed.values())
        self._followed.clear()
        for follower, _ in followed:
            await follower.close()
        tasks = [task for _, task in followed]
        if not tasks:
            return
        _, handling = await asyncio.wait(tasks, timeout=grace)
        for task in handling:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for follower, task in followed:
            if task in handling:
                logger.warning("a handler on %s did not end within %g s", follower.topic, grace)

    async def _note_top(self, topic: Topic) -> None:
        try:
            self._positions[topic] = await self._top(topic)
        except CommandError as error:
            if topic in self._names or error.temporary:
                raise
            self._refused(topic, error)

    async def _top(self, topic: Topic) -> Position:
        try:
            return await self._client.top(topic)
        except CommandError as error:
            if error.code != ErrorCode.PERMISSION_DENIED:
                raise
        # Who may not read histories may still read what is there now.
        async with self._client.subscribe(topic) as subscription:
            return (await anext(subscription)).position

    async def _listed(self) -> dict[Topic, int]:
        """Give the topics that fit, with the time of their last activity (Unix, ms), those written last first."""
        while True:
            try:
                listed = await self._client.topics()
                break
            except GatewayError as error:
                if self._client.failed is not None or (isinstance(error, CommandError) and not error.temporary):
                    raise
                logger.warning("the topics cannot be listed: %s; trying on", error)
            await asyncio.sleep(POLL)
        found = {Topic(one["topic"]): int(one["at"]) for one in listed}
        return {topic: at for topic, at in found.items() if any(pattern.covers(topic) for pattern in self._patterns)}

    async def _look(self) -> None:
        """Follow topics that are new, or that were written again."""
        listed = await self._listed()
        before, self._seen = self._seen, listed
        self._left = {topic: at for topic, at in self._left.items() if topic in listed}
        for topic, at in listed.items():
            if topic in self._followed or at <= self._left.get(topic, -1):
                continue
            if len(self._followed) >= MAX_FOLLOWED and not await self._make_room(before):
                return
            self._start(topic)

    def _start(self, topic: Topic) -> None:
        follower = Follower(
            self._client, topic, self._positions, handle=self._handle, types=self._types, mirror=self._mirror
        )
        self._followed[topic] = follower, asyncio.create_task(follower.follow())

    async def _make_room(self, before: dict[Topic, int]) -> bool:
        """Leave the topic that has been quiet for longest; False where none has been for long enough."""
        quiet = {
            topic: since
            for topic, (follower, _) in self._followed.items()
            if topic not in self._names and (since := follower.quiet_since) is not None
        }
        topic = min(quiet, key=quiet.__getitem__, default=None)
        if topic is None or asyncio.get_running_loop().time() - quiet[topic] < QUIET:
            return False
        follower, task = self._followed[topic]
        await follower.close()
        await asyncio.wait([task])
        if task.exception() is not None:
            return False  # `_part_from_failed` tells
        del self._followed[topic]
        # What came since the last look may not have been heard; the next look finds that it has been written.
        self._left[topic] = before.get(topic, -1)
        return True

    def _part_from_failed(self) -> None:
        for topic, (_, task) in list(self._followed.items()):
            error = task.exception() if task.done() else None
            if error is None:
                continue
            refused = isinstance(error, (CommandError, SnapshotError)) and self._client.failed is None
            if not refused or topic in self._names:
                raise error
            del self._followed[topic]
            self._refused(topic, error)

    def _refused(self, topic: Topic, error: BaseException) -> None:
        logger.warning("%s is not followed: %s", topic, error)
        self._left[topic] = _NEVER

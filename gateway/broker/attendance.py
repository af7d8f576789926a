"""Who reads a topic: a sorted set beside its history, member -> Unix time (ms) until which it counts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gateway.broker.keys import Keys
from gateway.broker.wire import Wire
from gateway.types import Topic

__all__ = ["RedisAttendance"]

MEMBERS_PER_COMMAND = 500


class RedisAttendance:
    """Keeps the lists in Redis; implements `gateway.broker.port.Attendance`.

    The key ``gw:{T}:readers`` has the topic's hash tag and is no part of its history: no script knows it, and it
    expires by itself when no gateway renews it.

    Args:
        keys: The names.
        wire: Gives a connection to the server that has a key.
        now: Gives the Unix time in ms on the server's clock.

    """

    def __init__(self, keys: Keys, *, wire: Callable[[str], Awaitable[Wire]], now: Callable[[], int]) -> None:
        self._keys = keys
        self._wire = wire
        self._now = now

    async def add(self, topic: Topic, members: Sequence[str], *, ttl: float) -> int:
        """List readers for ``ttl`` seconds from now; see `Attendance.add`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        key, length = self._keys.readers(topic), int(ttl * 1000)
        wire = await self._wire(key)
        now = self._now()
        # All sent in this order, in one go.
        *_, number = await asyncio.gather(
            wire.call("ZREMRANGEBYSCORE", key, "-inf", now),
            *(
                wire.call("ZADD", key, *(argument for member in part for argument in (now + length, member)))
                for part in _parts(members)
            ),
            wire.call("PEXPIRE", key, 2 * length),
            wire.call("ZCARD", key),
        )
        return int(number)

    async def remove(self, topic: Topic, members: Sequence[str]) -> int:
        """Take readers off the list; see `Attendance.remove`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        key = self._keys.readers(topic)
        wire = await self._wire(key)
        *_, number = await asyncio.gather(
            *(wire.call("ZREM", key, *part) for part in _parts(members)),
            wire.call("ZCOUNT", key, f"({self._now()}", "+inf"),
        )
        return int(number)

    async def read(self, topic: Topic, *, limit: int) -> tuple[int, list[str]]:
        """Give how many readers are listed, and at most ``limit`` of them.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        key = self._keys.readers(topic)
        wire = await self._wire(key)
        after = f"({self._now()}"
        number, members = await asyncio.gather(
            wire.call("ZCOUNT", key, after, "+inf"),
            wire.call("ZRANGEBYSCORE", key, after, "+inf", "LIMIT", 0, limit),
        )
        return int(number), [member.decode() for member in members]

    async def announce(self, topic: Topic, payload: bytes) -> None:
        """Publish on the topic's `channel`; nothing is stored.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        key = self._keys.readers(topic)
        wire = await self._wire(key)
        await wire.call(wire.publish, key, payload)

    def channel(self, topic: Topic) -> str:
        """Name the channel of announcements; it is the name of the list, too."""
        return self._keys.readers(topic)


def _parts(members: Sequence[str]) -> list[Sequence[str]]:
    return [members[start : start + MEMBERS_PER_COMMAND] for start in range(0, len(members), MEMBERS_PER_COMMAND)]

"""What gateway processes tell each other: notices that are kept for a day, and nodes that are alive."""

import asyncio
from collections.abc import Awaitable, Callable

from gateway.broker.keys import Keys
from gateway.broker.wire import Wire

__all__ = ["RedisNoticeboard"]

KEPT = 10_000
"""Notices that stay, about."""

KEPT_FOR = 24 * 3600 * 1000
"""Milliseconds after the last notice until which all of them stay."""


class RedisNoticeboard:
    """Keeps the notices in a stream and the nodes in a hash; implements `gateway.broker.port.Noticeboard`.

    Args:
        keys: The names.
        wire: Gives a connection to the server that has a key.

    """

    def __init__(self, keys: Keys, *, wire: Callable[[str], Awaitable[Wire]]) -> None:
        self._keys = keys
        self._wire = wire

    @property
    def channel(self) -> str:
        """Name the channel on which a node hears that there is something new, and what nodes ask each other."""
        return self._keys.control

    async def post(self, notice: bytes) -> None:
        """Keep a notice, then tell all nodes to look; see `Noticeboard.post`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        key = self._keys.control
        wire = await self._wire(key)
        await asyncio.gather(
            wire.call("XADD", key, "MAXLEN", "~", KEPT, "*", "n", notice),
            wire.call("PEXPIRE", key, KEPT_FOR),
            wire.call(wire.publish, key, b""),
        )

    async def after(self, place: str, *, limit: int) -> list[tuple[str, bytes]]:
        """Give the notices after a place, each with its own; see `Noticeboard.after`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        wire = await self._wire(self._keys.control)
        found = await wire.call("XRANGE", self._keys.control, f"({place}" if place else "-", "+", "COUNT", limit)
        return [(id_.decode(), fields[1]) for id_, fields in found]

    async def say(self, payload: bytes) -> None:
        """Publish to the nodes that hear it now.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        wire = await self._wire(self._keys.control)
        await wire.call(wire.publish, self._keys.control, payload)

    async def register(self, node: str, described: bytes) -> None:
        """Note what a node says about itself.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        wire = await self._wire(self._keys.control)
        await asyncio.gather(
            wire.call("HSET", self._keys.nodes, node, described), wire.call("PEXPIRE", self._keys.nodes, KEPT_FOR)
        )

    async def unregister(self, *nodes: str) -> None:
        """Forget nodes.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        wire = await self._wire(self._keys.control)
        await wire.call("HDEL", self._keys.nodes, *nodes)

    async def nodes(self) -> dict[str, bytes]:
        """Give what every node says about itself, those that died without a word included.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        wire = await self._wire(self._keys.control)
        found = await wire.call("HGETALL", self._keys.nodes)
        return {node.decode(): described for node, described in zip(found[::2], found[1::2], strict=True)}

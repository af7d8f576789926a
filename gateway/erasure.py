"""Deletes a topic, once, however often the broker has to be asked (PROTOCOL.md 10)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.broker.port import Broker, Deletion
from gateway.control import announce_deleted
from gateway.errors import BrokerUnavailableError
from gateway.types import START, Topic

__all__ = ["Erasure"]

RETRY = 0.1
"""Seconds between two tries while the broker is away; the command's timeout ends them."""

_Answer = TypeVar("_Answer")


class Erasure:
    """Removes topics with all that belongs to them, and has every gateway know of it.

    Args:
        broker: Where they are.

    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def erase(self, topic: Topic) -> Deletion:
        """Delete the history that a topic has now; what is written later stays."""
        while True:
            history = await _insist(lambda: self._broker.read(topic, START, limit=0))
            deletion = await self._erase(topic, history.epoch)
            if deletion is not None:
                return deletion

    async def _erase(self, topic: Topic, epoch: str) -> Deletion | None:
        deletion = await _insist(lambda: self._broker.delete(topic, epochs=epoch))
        if deletion is not None and deletion.gone:
            await _insist(lambda: announce_deleted(self._broker, topic, deletion.gone))
        return deletion


async def _insist(call: Callable[[], Awaitable[_Answer]]) -> _Answer:
    while True:
        try:
            return await call()
        except BrokerUnavailableError:
            await asyncio.sleep(RETRY)

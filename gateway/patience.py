"""Repeating a broker's call until it is answered."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.errors import BrokerUnavailableError

__all__ = ["Patience"]

_logger = logging.getLogger(__name__)

_FIRST_DELAY = 0.05
_MAX_DELAY = 2.0

T = TypeVar("T")


class Patience:
    """Repeats calls with growing, jittered delays.

    Attributes:
        away: Whether the last call that came back had failed.

    """

    def __init__(self) -> None:
        self.away = False
        self._waiting = 0
        """Calls that have failed and are not answered yet."""
        self._told = False
        """People know that some wait."""

    async def call(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until the broker answers; whoever wants to give up cancels.

        Args:
            attempt: Makes one attempt; an append carries the same mark in each.

        """
        try:
            answer = await attempt()
        except BrokerUnavailableError as error:
            self._failed(error)
            self._waiting += 1
            try:
                answer = await self._repeat(attempt)
            finally:
                self._waiting -= 1
        self.away = False
        # While a call of another kind is still refused, nothing is well.
        if self._told and not self._waiting:
            self._told = False
            _logger.warning("the broker is back")
        return answer

    async def _repeat(self, attempt: Callable[[], Awaitable[T]]) -> T:
        delay = _FIRST_DELAY
        while True:
            # Full jitter: many runs that lost the same broker must not come back in step.
            await asyncio.sleep(random.uniform(0, delay))
            delay = min(2 * delay, _MAX_DELAY)
            try:
                return await attempt()
            except BrokerUnavailableError as error:
                self._failed(error)

    def _failed(self, error: BrokerUnavailableError) -> None:
        self.away = True
        if self._told or error.told:
            _logger.debug("the broker is away, trying on: %s", error)
        else:
            self._told = True
            _logger.warning("the broker is away, trying on: %s", error)

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

    async def call(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until the broker answers; whoever wants to give up cancels.

        Args:
            attempt: Makes one attempt; an append carries the same mark in each.

        """
        delay = _FIRST_DELAY
        while True:
            try:
                answer = await attempt()
            except BrokerUnavailableError as error:
                if not self.away:
                    self.away = True
                    _logger.warning("the broker is away, trying on: %s", error)
                # Full jitter: many runs that lost the same broker must not come back in step.
                await asyncio.sleep(random.uniform(0, delay))
                delay = min(2 * delay, _MAX_DELAY)
                continue
            if self.away:
                self.away = False
                _logger.info("the broker is back")
            return answer

"""An event loop in which time stands still, so that a world with real sockets can be played again from its seed."""

import asyncio
import os
import selectors
from typing import Any

__all__ = ["SteppedLoop"]

_PATIENCE = float(os.environ.get("GATEWAY_TEST_PATIENCE", "60"))
"""Real seconds that the server may take to answer a call; raise it on a slow machine."""


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: "SteppedLoop") -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:
            return super().select(0)
        events = super().select(_PATIENCE if self._loop.calls else 0)
        if not events:
            self._loop.came_to_rest()
        return events


class SteppedLoop(asyncio.SelectorEventLoop):
    """Runs everything that can run, and then does nothing more until it is told to.

    Attributes:
        calls: Answers of the server that are awaited; meanwhile nothing is at rest.

    """

    def __init__(self) -> None:
        self._clock = 1000.0
        self._rest: asyncio.Future[None] | None = None
        self.calls = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._clock

    async def rest(self) -> None:
        """Wait until everybody else waits: for a timer, or for what only the caller can give."""
        self._rest = self.create_future()
        await self._rest

    def came_to_rest(self) -> None:
        if self._rest is None or self._rest.done() or self.calls:
            what = "the server does not answer" if self.calls else "nobody moves the world"
            raise RuntimeError(f"everybody waits, and {what}")
        self._rest.set_result(None)

    def advance(self) -> bool:
        """Let time pass up to the next timer; False where there is none."""
        scheduled: list[Any] = self._scheduled  # type: ignore[attr-defined]  # there is no public list of timers
        timers = [handle.when() for handle in scheduled if not handle.cancelled()]
        if not timers:
            return False
        self._clock = max(self._clock, min(timers))
        return True

    def jump(self, seconds: float) -> None:
        """Let time pass, whatever timers fall into it."""
        self._clock += seconds

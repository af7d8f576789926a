"""The request that a run shall stop, and how it reaches the task that runs it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

__all__ = ["Stop"]


class Stop:
    """Whether one run is asked to stop.

    Mode ``after_step`` only says so; mode ``now`` also cancels the task that has entered the run.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why the run shall stop, for people; None while it shall not."""
        self.now = False
        """Whether it shall at once."""
        self._task: asyncio.Task[object] | None = None
        """The task between `enter` and `leave`."""
        self._cancelling = 0
        """How many had cancelled that task before the run was entered."""
        self._sent = False
        """Whether this request has cancelled the task."""
        self._shields = 0

    @property
    def sent(self) -> bool:
        """Whether the task was cancelled for it."""
        return self._sent

    def enter(self) -> None:
        """Take the current task as the run's own."""
        self._task = asyncio.current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()

    def leave(self) -> bool:
        """Let the task go: it is not cancelled any more; returns whether nobody else wants it cancelled."""
        task, self._task = self._task, None
        if task is None:
            return True
        if self._sent:
            return task.uncancel() <= self._cancelling
        return task.cancelling() <= self._cancelling

    def request(self, reason: str, *, now: bool) -> None:
        """Ask the run to stop; the first reason stays.

        Args:
            reason: Why, for people.
            now: At once, not after the step.

        """
        self.reason = self.reason or reason
        self.now = self.now or now
        self._send()

    def check(self) -> str | None:
        """Answer a context's ``cancellation_check``: the reason to stop, None to go on."""
        return self.reason

    @contextlib.asynccontextmanager
    async def shield(self) -> AsyncIterator[None]:
        """Put a cancellation off to the end of the block.

        Raises:
            CancelledError: At the end, where the run was asked to stop meanwhile.

        """
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            self._send()
        # Where a stop has waited for this, it shows here.
        await asyncio.sleep(0)

    def _send(self) -> None:
        if not self.now or self._sent or self._shields or self._task is None:
            return
        if asyncio.current_task() is self._task:
            # A task that cancels itself could leave the block before that shows, and then write no end.
            asyncio.get_running_loop().call_soon(self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        if self._task is not None and not self._sent and not self._shields:
            self._sent = True
            self._task.cancel(self.reason)

"""A run that another run starts: it has a topic of its own, and is announced, as is its end, on its parent's."""

import contextlib
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from gateway.ending import told
from gateway.errors import PublishError
from gateway.recorder import outgoing
from gateway.run_writer import RunWriter
from gateway.start import Start

if TYPE_CHECKING:
    from gateway.run import Run

__all__ = ["SubAgent"]


class SubAgent(AbstractAsyncContextManager["Run"]):
    """Enters a sub-agent's run and tells its parent's readers of it; made by `Run.sub_agent`.

    Args:
        child: The sub-agent's run, not yet entered.
        start: What it begins with.
        writer: The parent's.

    """

    def __init__(self, child: "Run", start: Start, writer: RunWriter) -> None:
        self._child = child
        self._start = start
        self._writer = writer

    async def __aenter__(self) -> "Run":
        await self._writer.ready()
        await self._child.__aenter__()
        try:
            await self._writer.ready()
            self._writer.put(outgoing(self._announcement()))
        except BaseException as error:
            await self._child.__aexit__(type(error), error, error.__traceback__)
            raise
        return self._child

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            return await self._child.__aexit__(kind, error, traceback)
        finally:
            # A parent that has ended has closed it; one that was replaced is told so by its next own event.
            with contextlib.suppress(PublishError):
                await self._writer.ready()
                self._writer.put(told(self._child.outcome, kind="h"))

    def _announcement(self) -> dict[str, object]:
        start = self._start
        optional = {"model": start.model, "input": start.input, "max_iterations": start.max_iterations}
        return {
            **self._writer.event("agent_start", agent=start.agent, parent=start.parent, topic=start.topic, **optional),
            "run": start.run,
        }

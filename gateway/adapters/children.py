"""The sub-agents that one stream tells of: each is a run of its own, fed by an adapter of its own."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

from gateway.adapters.response import Adapter, Sink

__all__ = ["Children"]


class Children:
    """Opens runs of sub-agents, finds them by the stream's name of them, closes them.

    Args:
        run: Whose they are.
        make: Makes the adapter of one.

    """

    def __init__(self, run: Sink, make: Callable[[Sink], Adapter]) -> None:
        self._run = run
        self._make = make
        self._open: dict[str, tuple[AbstractAsyncContextManager[Sink], Adapter]] = {}

    def __bool__(self) -> bool:
        """Tell whether any is open."""
        return bool(self._open)

    def find(self, key: str) -> Adapter | None:
        """Give the adapter of one that is open; None where there is none of this name."""
        return self._open[key][1] if key in self._open else None

    async def open(self, key: str, agent: str) -> Adapter:
        """Begin a sub-agent's run.

        Args:
            key: The stream's name of it.
            agent: Its name for people.

        """
        entered = self._run.sub_agent(agent)
        fed = self._make(await entered.__aenter__())
        self._open[key] = (entered, fed)
        return fed

    async def close(self, key: str, error: Exception | None = None) -> None:
        """End a sub-agent's run; one that is not open is passed over.

        Args:
            key: The stream's name of it.
            error: By which it failed; None where it completed.

        """
        if key not in self._open:
            return
        entered, fed = self._open.pop(key)
        if error is None:
            try:
                await fed.finish()
            except Exception as unfinished:
                # A sub-agent whose stream is not whole has failed; its parent need not have.
                error = unfinished
        if error is None:
            await entered.__aexit__(None, None, None)
        else:
            await fed.abandon(error)
            await entered.__aexit__(type(error), error, error.__traceback__)

    async def close_all(self) -> None:
        """End those that are still open as completed, the last one first."""
        for key in reversed(list(self._open)):
            await self.close(key)

    async def abandon(self, error: BaseException) -> None:
        """End those that are still open by an error or a cancellation of the whole stream."""
        for entered, fed in reversed(list(self._open.values())):
            await fed.abandon(error)
            with suppress(type(error)):
                await entered.__aexit__(type(error), error, error.__traceback__)
        self._open.clear()

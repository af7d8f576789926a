"""The event loop of a command."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gateway.cli.interrupt import interruptible

__all__ = ["run_async"]

T = TypeVar("T")


def run_async(
    work: Coroutine[Any, Any, T], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """Run a command's work, as `asyncio.run` does; the first Ctrl-C cancels it.

    Args:
        work: The work.
        loop_factory: Makes the event loop; None takes asyncio's own.

    Raises:
        KeyboardInterrupt: It was cancelled by Ctrl-C and has ended.

    """
    interrupted = False
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        loop = runner.get_loop()

        async def main() -> T:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101  # for the type checker: this is one

            def cancel() -> None:
                nonlocal interrupted
                interrupted = True
                loop.call_soon_threadsafe(task.cancel)

            with interruptible(cancel):
                return await work

        try:
            return runner.run(main())
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise

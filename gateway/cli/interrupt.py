"""Ctrl-C: the first one lets a command end in good order, the second one ends it at once.

At once is safe at any moment: whatever a command has started (workers, an agent, an embedded server) ends by itself
when its parent is gone.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType

__all__ = ["INTERRUPTED", "end_at_once", "interruptible"]

INTERRUPTED = 130  # 128 + SIGINT


def end_at_once(_number: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
    """End the process without a word; a signal handler."""
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def interruptible(first: Callable[[], object], *, last: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Let the first Ctrl-C inside the block do something else than to end the process.

    Args:
        first: Called between two steps of the main thread, whatever these are: it should only leave a note.
        last: Called in the same way by the second one, which then ends the process.

    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, handle_again)
        first()

    def handle_again(_number: int, _frame: FrameType | None) -> None:
        last()
        end_at_once()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        # Whoever was interrupted stays so: the next one is the second.
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, before)

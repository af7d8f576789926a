"""The event loop of a command."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from gateway.cli.loop import run_async


@pytest.fixture(autouse=True)
def _own_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_work_gives_its_result() -> None:
    async def work() -> int:
        return 42

    assert run_async(work()) == 42


def test_first_interrupt_lets_the_work_clean_up() -> None:
    cleaned = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_async(work())
    assert cleaned


def test_work_that_cancels_itself_is_no_interrupt() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_async(work())

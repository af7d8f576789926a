"""A gateway to throw things at. After each throw its log is clean, and nothing of the caller is left.

A failure prints the seed of the inputs that led to it; ``GATEWAY_FUZZ_SEED`` plays them again.
"""

import asyncio
import contextlib
import logging
import os
import random
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from tests.serving import PATIENCE, Gateway, eventually, serve

__all__ = ["Ground", "Trouble", "fuzz", "ground"]

ROUND = 500
"""Inputs from one seed in the long form: hypothesis remembers them all."""

_Value = TypeVar("_Value")


class Trouble(logging.Handler):
    """Keeps what a log must not have: errors, and tracebacks on any level."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or record.exc_info:
            self.found.append(logging.Formatter().format(record))


class Ground:
    """A gateway on an event loop of its own thread, so that inputs may be drawn and shrunk on this one."""

    def __init__(self, gateway: Gateway, loop: asyncio.AbstractEventLoop, trouble: Trouble) -> None:
        self.gateway = gateway
        self.port = gateway.port
        self.trouble = trouble
        self._loop = loop
        self._before = set(asyncio.all_tasks(loop))

    def run(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        """Run one throw: it ends in time, and afterwards everything is as before."""
        self.trouble.found.clear()
        value = asyncio.run_coroutine_threadsafe(self._checked(work), self._loop).result(2 * PATIENCE + 5)
        assert not self.trouble.found, self.trouble.found[0]
        return value

    async def _checked(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        async with asyncio.timeout(PATIENCE):
            value = await work
        hub = self.gateway.hub
        await eventually(lambda: not self.gateway.server.server_state.connections)
        assert not hub.readers
        assert not [topic.name for topic in hub._topics.values() if topic.subscribers]
        here = asyncio.current_task()
        await eventually(lambda: not [task for task in asyncio.all_tasks() if task is not here and self._foreign(task)])
        return value

    def _foreign(self, task: "asyncio.Task[Any]") -> bool:
        """Say whether a task is none of those that a gateway without callers has."""
        name = getattr(task.get_coro(), "__qualname__", "")
        return task not in self._before and not any(name.startswith(own) for own in _OWN)


# What a gateway does by itself from time to time.
_OWN = ("Hub.", "Presence.", "Control.", "Sweeper.", "Wire.", "WireKeeper.", "Trimmer.", "Summaries.", "_Summaries")


@contextlib.contextmanager
def ground(redis_url: str, key_prefix: str, **options: Any) -> Iterator[Ground]:
    """Run a gateway in a thread."""
    loop = asyncio.new_event_loop()
    trouble = Trouble()
    ready: list[Ground] = []
    done: list[asyncio.Event] = []
    started = threading.Event()

    async def live() -> None:
        done.append(asyncio.Event())
        async with serve(redis_url, key_prefix, drain=0, **options) as gateway:
            ready.append(Ground(gateway, loop, trouble))
            started.set()
            await done[0].wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()), name="ground")
    root = logging.getLogger()
    root.addHandler(trouble)
    thread.start()
    try:
        assert started.wait(PATIENCE)
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(done[0].set)
        thread.join(2 * PATIENCE)
        root.removeHandler(trouble)
        assert not thread.is_alive()
        loop.close()
    assert not trouble.found, trouble.found[0]


def fuzz(name: str, inputs: st.SearchStrategy[_Value], throw: Callable[[_Value], None], *, examples: int) -> None:
    """Throw inputs: ``examples`` of them, or with GATEWAY_FUZZ_SECONDS as many as that time has room for."""
    seconds = float(os.environ.get("GATEWAY_FUZZ_SECONDS", "0"))
    first = int(os.environ.get("GATEWAY_FUZZ_SEED", "0")) or random.SystemRandom().getrandbits(32)
    thrown, number = 0, 0
    end = time.monotonic() + seconds

    def once(value: _Value) -> None:
        nonlocal thrown
        thrown += 1
        throw(value)

    while number == 0 or time.monotonic() < end:
        one = settings(
            max_examples=ROUND if seconds else examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.target, Phase.shrink],
        )(seed(first + number)(given(inputs)(once)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HypothesisWarning)  # an input of 200 KB is large, and meant to be
                one()
        except BaseException as error:
            error.add_note(f"fuzzer {name}: GATEWAY_FUZZ_SEED={first + number} plays this again")
            raise
        number += 1
    if seconds:
        print(f"\nfuzzer {name}: {thrown} inputs from seeds {first} to {first + number - 1}: nothing found")  # noqa: T201  # what a long run is for

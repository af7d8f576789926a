"""Random sequences of small steps, found and shrunk by hypothesis: after each, every mirror is the model's state."""

import asyncio
import contextlib
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gateway.context.messages import Message
from gateway.patience import Patience
from gateway.publisher import Publisher
from gateway.run import Run
from tests.faults.hurry import counted, in_a_hurry
from tests.faults.tally import Tally
from tests.faults.world import LEASE, World

TOPIC = "small"
STEP = 40.0
"""Seconds that one step may take, comparison included."""

_Answer = TypeVar("_Answer")


class Steps(RuleBasedStateMachine):
    """One topic, one run at a time, a few readers; each step ends with everything compared."""

    tally = Tally()

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._stack = contextlib.AsyncExitStack()
        self._directory = tempfile.TemporaryDirectory()
        self.world: World
        self.publisher: Publisher
        self.active: Run | None = None
        self.copied = False

    def do(self, step: Coroutine[Any, Any, _Answer]) -> _Answer:
        return self._runner.run(asyncio.wait_for(step, STEP))

    @initialize()
    def begin(self) -> None:
        async def enter() -> None:
            world = World(Path(self._directory.name), seed=0, tally=self.tally)
            self.world = await self._stack.enter_async_context(world)
            broker = world.broker(world.to_store.url)
            self.publisher = await self._stack.enter_async_context(
                Publisher(broker=broker, lease=LEASE, flush_interval=0)
            )

        self.do(enter())

    def teardown(self) -> None:
        async def leave() -> None:
            if self.active is not None:
                await self.active.complete()
                await self.active.__aexit__(None, None, None)
            await self._stack.aclose()

        try:
            self.do(leave())
        finally:
            self._runner.close()
            self._directory.cleanup()

    @invariant()
    def everybody_is_exact(self) -> None:
        async def compare() -> None:
            if self.active is not None:
                await self.active.flush()
            await self.world.settled()
            await self.world.verify(written=False)

        self.do(compare())

    # Runs

    @precondition(lambda self: self.active is None)
    @rule()
    def run_starts(self) -> None:
        self.active = self.do(self.publisher.run(TOPIC, agent="small").__aenter__())

    @precondition(lambda self: self.active is not None)
    @rule(texts=st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4))
    def deltas(self, texts: list[str]) -> None:
        async def say() -> None:
            assert self.active is not None
            for text in texts:
                await self.active.delta(text)

        self.do(say())

    @precondition(lambda self: self.active is not None)
    @rule(text=st.text(max_size=8))
    def message(self, text: str) -> None:
        assert self.active is not None
        self.do(self.active.add_message(Message.assistant(text)))

    @precondition(lambda self: self.active is not None)
    @rule(text=st.text(max_size=8))
    def tool(self, text: str) -> None:
        async def use() -> None:
            assert self.active is not None
            await self.active.tool_call("c", "look", {})
            await self.active.tool_result("c", "look", text)

        self.do(use())

    @precondition(lambda self: self.active is not None and len(self.active.context.messages) > 1)
    @rule()
    def compaction(self) -> None:
        assert self.active is not None
        summary = Message.system("summary")
        self.do(self.active.change_context(lambda context: context.replace_message_range(0, 1, summary)))

    @precondition(lambda self: self.active is not None)
    @rule()
    def run_ends(self) -> None:
        async def end() -> None:
            assert self.active is not None
            await self.active.__aexit__(None, None, None)

        self.do(end())
        self.active = None

    # Readers

    @precondition(lambda self: len(self.world.followers) < 6)
    @rule(mirror=st.booleans(), late=st.booleans())
    def reader_comes(self, mirror: bool, late: bool) -> None:  # noqa: FBT001 - drawn by hypothesis
        async def come() -> None:
            self.world.follow(TOPIC, mirror=mirror, late=late and mirror)

        self.do(come())

    @rule()
    def readers_are_cut_off(self) -> None:
        async def cut() -> None:
            self.world.to_readers.reset()

        self.do(cut())

    # Faults

    @rule()
    def hub_is_cut_off(self) -> None:
        async def cut() -> None:
            self.world.to_hub.reset()

        self.do(cut())

    @rule()
    def gateway_restarts(self) -> None:
        self.do(self.world.restart_gateway())

    @rule()
    def trim(self) -> None:
        self.do(self.world.trim(TOPIC))

    @rule()
    def data_is_copied(self) -> None:
        self.world.copy_data()
        self.copied = True

    @precondition(lambda self: self.copied and self.active is not None and not self.world.trimmed)
    @rule()
    def store_is_rolled_back(self) -> None:
        self.do(self.world.roll_back())
        self.do(self._noticed())

    @rule()
    def store_is_killed(self) -> None:
        async def kill() -> None:
            async with self.world.store_away():
                pass

        self.do(kill())
        self.do(self._noticed())

    async def _noticed(self) -> None:
        """Let the next step find a store that answers."""
        await Patience().call(lambda: self.world.admin.topics(limit=1))


def test_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_hurry(monkeypatch)
    counted(monkeypatch, Steps.tally)
    run_state_machine_as_test(
        Steps,
        settings=settings(
            max_examples=10, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )

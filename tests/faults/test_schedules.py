"""Random schedules of faults over all the real parts: nothing is lost, doubled or reordered, and nothing hangs.

A schedule is drawn from its seed. One that fails names it; ``GATEWAY_FAULT_SEED=<seed>`` runs that one alone.
``GATEWAY_SOAK_SECONDS`` (see ``make soak``) is how long the long one goes on, ``GATEWAY_SOAK_SCHEDULES`` how many
short ones there are beside it.
"""

import asyncio
import itertools
import os
import random
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.faults.hurry import counted, in_a_hurry
from tests.faults.schedules import FAULTS, SCHEDULES_TO_MEET_ALL, faults_of, run_schedule
from tests.faults.tally import HAPPENED, Tally

REPLAY = os.environ.get("GATEWAY_FAULT_SEED")
SOAK = float(os.environ.get("GATEWAY_SOAK_SECONDS", "0"))
SCHEDULES = int(os.environ.get("GATEWAY_SOAK_SCHEDULES", "0"))
TOGETHER = 4
"""Schedules at a time, each with a Valkey and a gateway of its own: most of what they do is wait."""


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    tally = Tally()
    in_a_hurry(monkeypatch)
    counted(monkeypatch, tally)
    return tally


async def run_all(seeds: Iterable[int], directory: Path, tally: Tally) -> None:
    """Run schedules until there are no more; the first failure names its seed."""
    remaining = iter(seeds)

    async def work() -> None:
        for seed in remaining:
            try:
                await run_schedule(directory / str(seed), seed=seed, tally=tally, faults=faults_of(seed))
            except Exception as error:
                raise AssertionError(f"{error!r}\nschedule {seed}: GATEWAY_FAULT_SEED={seed} runs it again") from error
            shutil.rmtree(directory / str(seed))

    async with asyncio.TaskGroup() as group:
        for _ in range(TOGETHER):
            group.create_task(work())


async def test_schedules_leave_every_reader_exact(tmp_path: Path, tally: Tally) -> None:
    if REPLAY is not None:
        await run_all([int(REPLAY)], tmp_path, tally)
        return
    await run_all(range(SCHEDULES_TO_MEET_ALL), tmp_path, tally)
    print(tally)  # noqa: T201 - the figures are a part of the answer
    assert not tally.missing((*FAULTS, *HAPPENED)), tally


@pytest.mark.timeout(0)
@pytest.mark.skipif(not SCHEDULES, reason="set GATEWAY_SOAK_SCHEDULES (make soak)")
async def test_many_schedules(tmp_path: Path, tally: Tally) -> None:
    first = random.randrange(10**6) * SCHEDULES_TO_MEET_ALL
    await run_all(range(first, first + SCHEDULES), tmp_path, tally)
    print(f"{SCHEDULES} schedules from seed {first} on: {tally}")  # noqa: T201 - as above
    assert not tally.missing((*FAULTS, *HAPPENED)), tally


@pytest.mark.timeout(0)
@pytest.mark.skipif(not SOAK, reason="set GATEWAY_SOAK_SECONDS (make soak)")
async def test_one_long_schedule(tmp_path: Path, tally: Tally) -> None:
    seed = int(REPLAY) if REPLAY is not None else random.randrange(10**9)
    choice = random.Random(seed)
    deadline = time.monotonic() + SOAK
    faults = itertools.takewhile(lambda _: time.monotonic() < deadline, iter(lambda: choice.choice([*FAULTS]), ""))
    try:
        await run_schedule(tmp_path, seed=seed, tally=tally, faults=faults, topics=6, readers=3)
    except Exception as error:
        raise AssertionError(f"{error!r}\nthe long schedule {seed}: GATEWAY_FAULT_SEED={seed} runs it again") from error
    print(tally)  # noqa: T201 - as above
    assert not tally.missing((*FAULTS, *HAPPENED)), tally

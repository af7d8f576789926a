"""Shared timers."""

import asyncio

from gateway.pace import SLICE, Pace
from tests.serving import eventually


class Stepped:
    def __init__(self, again: Pace | None = None) -> None:
        self.times: list[float] = []
        self._again = again

    def step(self, now: float) -> None:
        self.times.append(now)
        if self._again is not None and len(self.times) < 3:
            self._again.add(self)


async def test_what_is_due_is_stepped_together_and_once() -> None:
    turns = 0

    def after() -> None:
        nonlocal turns
        turns += 1

    pace = Pace(0.01, after=after)
    one, two = Stepped(), Stepped()
    for stepped in (one, two, one):
        pace.add(stepped)
    await eventually(lambda: one.times and two.times)
    assert one.times == two.times
    assert (len(one.times), turns) == (1, 1)
    pace.close()


async def test_what_is_due_again_waits_for_the_next_turn() -> None:
    pace = Pace(0.02, after=lambda: None)
    stepped = Stepped(pace)
    pace.add(stepped)
    await eventually(lambda: len(stepped.times) == 3)
    assert all(later - earlier >= 0.015 for earlier, later in zip(stepped.times, stepped.times[1:], strict=False))
    pace.close()


async def test_many_are_stepped_in_slices() -> None:
    turns: list[int] = []
    all_stepped = [Stepped() for _ in range(SLICE * 2 + 1)]
    pace = Pace(0.01, after=lambda: turns.append(sum(len(stepped.times) for stepped in all_stepped)))
    for stepped in all_stepped:
        pace.add(stepped)
    await eventually(lambda: len(turns) == 3)
    assert turns == [SLICE, SLICE * 2, SLICE * 2 + 1]
    pace.close()


async def test_nothing_is_stepped_after_close() -> None:
    pace, stepped = Pace(0.0, after=lambda: None), Stepped()
    pace.add(stepped)
    pace.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert stepped.times == []

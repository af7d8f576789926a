"""One topic's queue between the connection and its taker."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway import subscription as module
from gateway.errors import CommandError
from gateway.mirror import Mirror
from gateway.reader import Since, Update
from gateway.subscription import Subscription
from gateway.types import Position, Topic

EPOCH = "aB3dE6gH"


class Calls:
    """A subscription and what it asked of its client."""

    def __init__(self, *, since: Since = None, mirror: bool = False) -> None:
        self.asked = 0
        self.left = 0
        self.subscription = Subscription(Topic("t"), since=since, mirror=mirror, ask=self._ask, leave=self._leave)

    def _ask(self, _: Subscription) -> None:
        self.asked += 1

    def _leave(self, _: Subscription) -> None:
        self.left += 1


def update(offset: int, *, epoch: str = EPOCH) -> Update:
    data = {"type": "agent_delta", "run": "r", "message": "m", "text": str(offset)}
    return Update(topic=Topic("t"), data=data, position=Position(epoch=epoch, offset=offset), first=offset)


@contextmanager
def waiting(subscription: Subscription) -> Iterator[asyncio.Task[Update]]:
    async def take() -> Update:
        return await anext(subscription)

    yield asyncio.create_task(take())


async def test_updates_are_taken_in_order() -> None:
    subscription = Calls().subscription
    subscription.deliver([update(1), update(2)], size=10)
    subscription.deliver([update(3)], size=10)
    assert [(await anext(subscription)).position.offset for _ in range(3)] == [1, 2, 3]


async def test_taker_that_waits_is_woken() -> None:
    subscription = Calls().subscription
    with waiting(subscription) as taking:
        await asyncio.sleep(0)
        subscription.deliver([update(1)], size=10)
        assert (await taking).position.offset == 1


async def test_mirror_is_folded_as_updates_are_taken() -> None:
    subscription = Calls(since="start", mirror=True).subscription
    subscription.deliver([update(1), update(2, epoch="ZZZZZZZZ")], size=10)
    assert subscription.mirror is not None
    assert subscription.mirror.offset == 0
    assert (await anext(subscription)).mirror.position == Position(epoch=EPOCH, offset=1)
    assert (await anext(subscription)).mirror.position == Position(epoch="ZZZZZZZZ", offset=2)
    assert subscription.mirror.snapshot()["mirror"]["open"][0]["text"] == "12"


async def test_snapshot_makes_a_new_mirror() -> None:
    subscription = Calls(since="start", mirror=True).subscription
    snapshot = Mirror("t", EPOCH, 9).snapshot()
    position = Position(epoch=EPOCH, offset=9)
    before = subscription.mirror
    subscription.deliver(
        [Update(topic=Topic("t"), data=dict(snapshot), position=position, first=9, snapshot=True)], size=10
    )
    assert (await anext(subscription)).mirror.position == position
    assert subscription.mirror is not before


async def test_bound_reached_leaves_once_and_asks_again_when_all_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED", 100)
    calls = Calls()
    calls.subscription.deliver([update(1)], size=100)
    assert (calls.left, calls.subscription.paused) == (0, False)
    calls.subscription.deliver([update(2)], size=1)
    calls.subscription.deliver([update(3)], size=1)
    assert (calls.left, calls.subscription.paused) == (1, True)
    for _ in range(3):
        await anext(calls.subscription)
    assert calls.asked == 0
    with waiting(calls.subscription) as taking:
        await asyncio.sleep(0)
        assert (calls.asked, calls.subscription.paused) == (1, False)
        calls.subscription.deliver([update(4)], size=100)
        assert (await taking).position.offset == 4
    assert calls.left == 1


async def test_failure_comes_after_what_was_received() -> None:
    subscription = Calls().subscription
    subscription.deliver([update(1)], size=10)
    subscription.fail(CommandError(103, "no"))
    assert (await anext(subscription)).position.offset == 1
    for _ in range(2):
        with pytest.raises(CommandError):
            await anext(subscription)


async def test_end_comes_after_what_was_received() -> None:
    subscription = Calls().subscription
    subscription.deliver([update(1)], size=10)
    subscription.end()
    assert [one.position.offset async for one in subscription] == [1]


async def test_aclose_drops_what_was_received_and_leaves_once() -> None:
    calls = Calls()
    calls.subscription.deliver([update(1)], size=10)
    await calls.subscription.aclose()
    await calls.subscription.aclose()
    assert calls.left == 1
    assert [one async for one in calls.subscription] == []

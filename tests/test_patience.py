import asyncio

import pytest

from gateway.errors import BrokerError, BrokerUnavailableError
from gateway.patience import Patience


class Flaky:
    """Fails as often as it is told to, then answers."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.attempts = 0

    async def __call__(self) -> str:
        self.attempts += 1
        if self.attempts <= self.failures:
            raise BrokerUnavailableError("away")
        return "answer"


async def test_call_is_repeated_until_it_is_answered() -> None:
    flaky, patience = Flaky(3), Patience()
    assert await patience.call(flaky) == "answer"
    assert flaky.attempts == 4


async def test_away_until_the_next_answer() -> None:
    patience = Patience()
    seen: list[bool] = []

    async def attempt() -> None:
        seen.append(patience.away)
        if len(seen) < 3:
            raise BrokerUnavailableError("away")

    await patience.call(attempt)
    assert seen == [False, True, True]
    assert not patience.away


async def test_other_errors_pass_through() -> None:
    async def broken() -> None:
        raise BrokerError("no script can do that")

    with pytest.raises(BrokerError):
        await Patience().call(broken)


async def test_whoever_gives_up_cancels() -> None:
    patience = Patience()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await patience.call(Flaky(10**9))
    assert patience.away


async def test_outage_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    patience = Patience()
    with caplog.at_level("INFO", logger="gateway.patience"):
        flaky = Flaky(10)
        await asyncio.gather(*(patience.call(flaky) for _ in range(5)))
    assert [record.message for record in caplog.records] == [
        "the broker is away, trying on: away",
        "the broker is back",
    ]


async def test_calls_that_are_answered_meanwhile_end_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    patience, refused = Patience(), asyncio.Event()

    async def append() -> None:
        if not refused.is_set():
            raise BrokerUnavailableError("OOM")

    with caplog.at_level("INFO", logger="gateway.patience"):
        waiting = asyncio.create_task(patience.call(append))
        await asyncio.sleep(0)
        for _ in range(5):
            await patience.call(Flaky(1))
        refused.set()
        await waiting
    assert len(caplog.records) == 2


async def test_outage_that_the_broker_has_told_is_not_told_again(caplog: pytest.LogCaptureFixture) -> None:
    patience, failures = Patience(), [1, 2, 3]

    async def attempt() -> None:
        if failures:
            failures.pop()
            raise BrokerUnavailableError("nobody listens there", told=True)

    with caplog.at_level("INFO", logger="gateway.patience"):
        await patience.call(attempt)
    assert not caplog.records

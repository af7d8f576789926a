"""An outage is told once, and its end once."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.broker.outage import Outage
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError
from tests.publishing import until
from tests.servers import RedisServer


class Somebody:
    """Keeps a connection."""


@pytest.fixture(autouse=True)
def _level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gateway")


def test_first_one_away_and_last_one_back_are_told(caplog: pytest.LogCaptureFixture) -> None:
    one, other = Somebody(), Somebody()
    outage = Outage.of("here:1")
    for who in (one, other, one):
        outage.away(who, "nobody listens there")
    Outage.of("here:1").back(other)
    assert [record.getMessage() for record in caplog.records] == ["nobody listens there; trying on"]
    outage.back(one)
    outage.back(one)
    assert [record.getMessage() for record in caplog.records][1:] == ["Redis at here:1 is back"]


def test_who_gives_up_is_not_back(caplog: pytest.LogCaptureFixture) -> None:
    one = Somebody()
    outage = Outage.of("here:2")
    outage.away(one, "nobody listens there")
    outage.forget(one)
    outage.back(one)
    assert len(caplog.records) == 1


class Listener:
    """Counts how often the link was up and down."""

    def __init__(self) -> None:
        self.losses = self.returns = 0

    def received(self, channel: str, payload: bytes) -> None: ...

    def drained(self) -> None: ...

    def lost(self) -> None:
        self.losses += 1

    def restored(self) -> None:
        self.returns += 1

    def missed(self, channels: Sequence[str]) -> None: ...


async def test_link_and_calls_on_a_server_that_is_away_tell_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(tmp_path) as server:
        broker, listener = RedisBroker(server.url), Listener()
        link = broker.link(listener)
        try:
            await broker.topics()
            with server.away():
                for _ in range(10):
                    with pytest.raises(BrokerUnavailableError):
                        await broker.topics()

                async def lost() -> bool:
                    return listener.losses == 1

                await until(lost)

            async def answers() -> bool:
                try:
                    await broker.topics()
                except BrokerUnavailableError:
                    return False
                return listener.returns == 1

            await until(answers)
        finally:
            await link.aclose()
            await broker.aclose()
    assert len(caplog.records) == 2, caplog.text
    assert caplog.messages[0].endswith("; trying on")
    assert caplog.messages[1] == f"Redis at 127.0.0.1:{server.port} is back"

"""A master behind real sentinels, that dies."""

from pathlib import Path

import pytest

from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError
from gateway.patience import Patience
from gateway.types import START, Position, Topic
from tests.broker.author import Author, stored
from tests.broker.test_link import Ears, back, until
from tests.clusters import Sentinels, do, is_master

TOPIC = Topic("chat:1")
TIMEOUT = 3.0
"""Seconds that a server may take on a busy machine; one that is dead answers at once that it is."""


async def test_calls_and_link_follow_the_master(tmp_path: Path) -> None:
    with Sentinels(tmp_path) as sentinels:
        broker, ears = RedisBroker(sentinels.url, timeout=TIMEOUT), Ears()
        link = broker.link(ears)
        await link.subscribe(broker.channel(TOPIC))
        author = Author(broker, TOPIC)
        before = await author.start()
        assert do(sentinels.master.port, "EXISTS", broker.channel(TOPIC)) == 1
        await until(lambda: do(sentinels.master.port, "WAIT", 1, 1000) == 1)
        sentinels.master.kill()
        await until(lambda: ears.turns()[:1] == ["lost"])
        history = await Patience().call(lambda: broker.read(TOPIC, before.position, seen=True))
        assert is_master(sentinels.replica.port)
        # Another server: another epoch, into which the old one leads.
        assert history.epoch != before.position.epoch
        assert history.complete
        await back(ears)
        answer = stored(await Patience().call(lambda: author.add("after", seq=2)))
        assert answer.position == Position(epoch=history.epoch, offset=2)
        await until(lambda: any(payload.split(b" ")[1:3] == [b"2", b"2"] for _, payload in ears.heard))
        await link.aclose()
        await broker.aclose()


async def test_a_link_to_a_master_that_is_one_no_more_is_lost(tmp_path: Path) -> None:
    """The old one answers on, as one that is cut off from the others does."""
    with Sentinels(tmp_path) as sentinels:
        broker, ears = RedisBroker(sentinels.url, timeout=TIMEOUT), Ears()
        link = broker.link(ears)
        await link.subscribe("a")
        with sentinels.master.silent():
            await until(lambda: is_master(sentinels.replica.port))
            await back(ears)
        # Said more than once, as nothing that is said while a connection is made anew is heard.
        await until(lambda: do(sentinels.replica.port, "PUBLISH", "a", "b") and ears.heard)
        assert ears.heard[0] == ("a", b"b")
        await link.aclose()
        await broker.aclose()


async def test_no_sentinel_and_no_such_service(tmp_path: Path) -> None:
    nobody = RedisBroker("redis+sentinel://127.0.0.1:1,127.0.0.1:2/runs?sentinel_password=secret", timeout=1)
    with pytest.raises(BrokerUnavailableError, match="runs of the sentinels") as caught:
        await nobody.read(TOPIC, START)
    assert "secret" not in str(caught.value)
    await nobody.aclose()
    with Sentinels(tmp_path) as sentinels:
        other = RedisBroker(sentinels.url.replace("/runs", "/others"), timeout=1)
        with pytest.raises(BrokerUnavailableError, match="knows no others"):
            await other.read(TOPIC, START)
        await other.aclose()

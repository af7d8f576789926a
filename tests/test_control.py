"""What gateway processes tell each other, lost announcements included."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.keys import Keys
from gateway.broker.redis import RedisBroker
from gateway.control import Control, announce_deleted
from gateway.errors import BrokerUnavailableError
from gateway.types import Topic
from tests.servers import RedisServer
from tests.serving import eventually

TOPIC = Topic("chat:1")


class House:
    """Notes what a node is asked to do."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.counts: dict[str, int] = {}

    def disconnect(self, user: str, *, client: str, keep: frozenset[str], code: int, reason: str, at: int) -> None:
        self.done.append(("disconnect", user, client, sorted(keep), code, reason))

    def unsubscribe(self, user: str, topic: Topic, *, client: str) -> None:
        self.done.append(("unsubscribe", user, topic, client))

    def census(self) -> dict[str, int]:
        return self.counts

    def population(self) -> tuple[int, int]:
        return 7, 3

    async def deleted(self, topic: Topic) -> None:
        self.done.append(("deleted", topic))


class Node:
    """A control with its house and its link, which may be deaf."""

    def __init__(self, broker: RedisBroker, *, deaf: bool = False, period: float = 0.1) -> None:
        self.house = House()
        self.broker = broker
        self.deaf = deaf
        self.control = Control(broker, self.house, period=period)
        self.link = broker.link(self)
        self.control.start(self.link)

    def received(self, channel: str, payload: bytes) -> None:
        assert channel == self.control.channel
        if not self.deaf:
            self.control.received(payload)

    def drained(self) -> None:
        pass

    def lost(self) -> None:
        pass

    def restored(self) -> None:
        self.control.restored()

    def missed(self, channels: Sequence[str]) -> None:
        self.control.restored()

    async def aclose(self) -> None:
        await self.control.aclose()
        await self.link.aclose()


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@contextlib.asynccontextmanager
async def nodes(broker: RedisBroker, *deaf: bool, period: float = 0.1) -> AsyncIterator[list[Node]]:
    found = [Node(broker, deaf=one, period=period) for one in deaf]
    try:
        while len(await found[0].control.nodes()) < len(found):
            await asyncio.sleep(0.01)
        yield found
    finally:
        for node in found:
            await node.aclose()


async def test_a_notice_reaches_every_node_once(broker: RedisBroker) -> None:
    # Nobody looks by itself for an hour: they are told.
    async with nodes(broker, False, False, False, period=3600) as found:
        await found[0].control.disconnect("ann", keep=frozenset({"c1"}), code=3503, reason="why")
        await found[1].control.unsubscribe("bob", TOPIC, client="c2")
        expected = [("disconnect", "ann", "", ["c1"], 3503, "why"), ("unsubscribe", "bob", TOPIC, "c2")]
        await eventually(lambda: all(len(node.house.done) >= 2 for node in found))
        assert [node.house.done for node in found] == [expected] * 3


async def test_who_was_asked_has_done_it_when_it_answers(broker: RedisBroker) -> None:
    async with nodes(broker, True, period=3600) as (node,):
        await node.control.disconnect("ann", code=3503, reason="")
        assert node.house.done == [("disconnect", "ann", "", [], 3503, "")]


async def test_a_lost_announcement_is_made_good(broker: RedisBroker) -> None:
    async with nodes(broker, False, True) as (one, deaf):
        await one.control.disconnect("ann", code=3503, reason="")
        await eventually(lambda: bool(deaf.house.done))
        assert len(deaf.house.done) == 1


async def test_notices_are_read_after_the_server_was_away(tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path, {"appendonly": "yes"}) as server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        async with nodes(broker, False, True, period=3600) as (one, other):
            await one.control.disconnect("ann", code=3503, reason="")
            assert other.house.done == []
            with server.away():
                await eventually(lambda: not other.link.up)
                with pytest.raises(BrokerUnavailableError):
                    await one.control.disconnect("bob", code=3503, reason="")
            await eventually(lambda: bool(other.house.done))
            assert [done[1] for done in other.house.done] == ["ann"]
            assert [done[1] for done in one.house.done] == ["ann"], "read again, done again"
        await broker.aclose()


async def test_a_node_that_begins_later_learns_what_was_revoked_and_closes_nobody(broker: RedisBroker) -> None:
    async with nodes(broker, False) as (first,):
        await first.control.disconnect("ann", code=3503, reason="bye")
        await first.control.disconnect("bob", code=3001, reason="come back")
        await first.control.disconnect("eve", client="c1", code=3503, reason="one of them")
        await announce_deleted(broker, TOPIC, " abcdefgh ")
        told = broker.now()
        while broker.now() < told + 20:  # clocks are compared to some milliseconds
            await asyncio.sleep(0.005)
        async with nodes(broker, False) as (late,):
            await eventually(lambda: ("deleted", TOPIC) in late.house.done)
            assert late.house.done == [("deleted", TOPIC)]
            now = broker.now() / 1000
            found = late.control.revoked("ann", now - 60)
            assert found is not None
            assert (found.code, found.reason) == (3503, "bye")
            assert late.control.revoked("ann", now + 60) is None
            assert late.control.revoked("ann", None) is None
            assert late.control.revoked("bob", now - 60) is None
            assert late.control.revoked("eve", now - 60) is None


async def test_nodes_tell_how_they_are_and_go(broker: RedisBroker, redis: Redis, key_prefix: str) -> None:
    async with nodes(broker, False) as (one,):
        one.house.counts = {"a": 2, "b": 1}
        async with nodes(broker, False) as (other,):
            found = await one.control.nodes()
            assert {node["uid"] for node in found} == {one.control.node, other.control.node}
            own = next(node for node in found if node["uid"] == one.control.node)
            told = {name: own[name] for name in ("num_clients", "num_users", "num_subs", "num_channels")}
            assert told == {"num_clients": 7, "num_users": 3, "num_subs": 3, "num_channels": 2}
        assert [node["uid"] for node in await one.control.nodes()] == [one.control.node]
        # One that died without a word.
        dead = msgspec.json.encode({"uid": "dead", "name": "x", "until": broker.now() - 1})
        await redis.hset(Keys(key_prefix).nodes, "dead", dead)
        assert [node["uid"] for node in await one.control.nodes()] == [one.control.node]
        assert not await redis.hexists(Keys(key_prefix).nodes, "dead")


async def test_channels_add_up_what_the_nodes_answer(broker: RedisBroker) -> None:
    async with nodes(broker, False, False) as (one, other):
        one.house.counts, other.house.counts = {"a": 2, "b": 1}, {"a": 5, "c": 1}
        assert await one.control.channels() == {"a": 7, "b": 1, "c": 1}
        other.deaf = True
        assert await one.control.channels() == {"a": 2, "b": 1}


@pytest.mark.parametrize("payload", [b"x", b"[]", b"3", b"{}", b'{"answer":1}', b'{"ask":{"a":1}}', b"\xff"])
async def test_what_is_not_ours_on_the_channel_does_no_harm(
    broker: RedisBroker, redis: Redis, key_prefix: str, payload: bytes
) -> None:
    async with nodes(broker, False, period=3600) as (node,):
        await redis.publish(Keys(key_prefix).control, payload)
        await node.control.disconnect("ann", code=3503, reason="")
        assert len(node.house.done) == 1
        assert await node.control.channels() == {}


async def test_a_notice_of_a_newer_gateway_is_passed_over(broker: RedisBroker) -> None:
    async with nodes(broker, False) as (node,):
        await broker.notices.post(msgspec.json.encode({"kind": "later", "id": "1", "at": broker.now()}))
        await node.control.disconnect("ann", code=3503, reason="")
        assert len(node.house.done) == 1


async def test_notices_are_kept_for_a_day_and_within_a_bound(
    broker: RedisBroker, redis: Redis, key_prefix: str
) -> None:
    for _ in range(3):
        await broker.notices.post(b"{}")
    assert 0 < await redis.ttl(Keys(key_prefix).control) <= 24 * 3600
    assert [notice for _, notice in await broker.notices.after("", limit=2)] == [b"{}"] * 2

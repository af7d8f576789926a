"""Runs die visibly, on topics that nobody watches too, and nobody who lives is buried."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.broker.wire import LATE
from gateway.context.messages import Message, ToolCall
from gateway.errors import BrokerUnavailableError
from gateway.patience import Patience
from gateway.publisher import Publisher
from gateway.sweeper import Sweeper
from gateway.types import START, Topic
from tests.acting import Actor, Person
from tests.faults.proxy import Proxy
from tests.publishing import events, mirror, send, until
from tests.servers import RedisServer
from tests.serving import serve

TOPIC = Topic("chat:1")


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


async def die(broker: RedisBroker, *, topic: Topic = TOPIC, run: str = "r1", lease: int = 300) -> Actor:
    """Begin a run that does nothing more."""
    actor = Actor(broker, topic, run=run)
    await actor.start(lease=lease)
    await broker.set_due(topic, broker.now() + lease)
    return actor


async def lapsed(broker: RedisBroker, topic: Topic = TOPIC) -> None:
    deadline = (await broker.standing(topic)).deadline
    await until(lambda: asyncio.sleep(0.01, broker.now() > deadline))


async def statuses(broker: RedisBroker, topic: Topic = TOPIC) -> list[str]:
    return [run["status"] for run in (await mirror(broker, topic))["runs"]]


# Runs


async def test_gateway_ends_dead_runs_that_nobody_watches(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    topics = [Topic(f"chat:{number}") for number in range(5)]
    async with serve(redis_url, key_prefix), serve(redis_url, key_prefix):
        for topic in topics:
            await die(broker, topic=topic)
        for topic in topics:
            await until(partial(_lost, broker, topic))
    for topic in topics:
        assert [event["type"] for event in await events(broker, topic)] == ["agent_start", "agent_lost"]


async def _lost(broker: RedisBroker, topic: Topic) -> bool:
    return await statuses(broker, topic) == ["lost"]


async def test_topic_that_cannot_be_looked_at_keeps_no_other_from_it(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    topics = [Topic(f"chat:{number}") for number in range(20)]
    for topic in topics:
        await die(broker, topic=topic)
    async with Redis.from_url(redis_url) as redis:
        for spoiled in topics[::2]:
            await redis.delete(broker.channel(spoiled))
            await redis.set(broker.channel(spoiled), "somebody else's")
    async with serve(redis_url, key_prefix):
        for topic in topics[1::2]:
            await until(partial(_lost, broker, topic))


@pytest.mark.parametrize("how", ["memory", "disk"])
async def test_store_that_took_no_writes_for_longer_than_the_lease_kills_nobody(tmp_path: Path, how: str) -> None:
    """It answered all the time, so no connection was lost: what it refused was the renewals, too."""
    with RedisServer(tmp_path / "data", {"save": "3600 1"}) as server:
        broker, other = RedisBroker(server.url, timeout=1), RedisBroker(server.url, timeout=1)
        sweeper = Sweeper(other)
        await die(broker, lease=2000)  # which stands for one that lives, and waits to try again
        await other.due(until=0)
        await asyncio.sleep(2.1)  # its connection is older than the lease by now
        async with Redis(port=server.port) as redis:
            await refuse_writes(server, redis, how)
            with pytest.raises(BrokerUnavailableError):
                await sweeper.sweep()
            await allow_writes(redis, how)
        assert await sweeper.look(TOPIC) is not None
        assert await statuses(broker) == ["running"]
        await broker.aclose()
        await other.aclose()


async def refuse_writes(server: RedisServer, redis: Redis, how: str) -> None:
    """Bring a server into a state in which it answers and takes nothing."""
    if how == "memory":
        await redis.config_set("maxmemory", "1")
        return
    shutil.rmtree(server.directory)  # it saves there in vain, as on a disk that is full
    await redis.bgsave()
    await until(partial(_failed_to_save, redis))


async def _failed_to_save(redis: Redis) -> bool:
    persistence = await redis.info("persistence")
    return bool(persistence["rdb_last_bgsave_status"] != "ok")


async def allow_writes(redis: Redis, how: str) -> None:
    if how == "memory":
        await redis.config_set("maxmemory", "0")
    else:
        await redis.config_set("stop-writes-on-bgsave-error", "no")


async def test_many_sweepers_write_one_end(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    others = [RedisBroker(redis_url, key_prefix=key_prefix) for _ in range(8)]
    for other in others:
        await other.topics()
        await other.set_due(TOPIC, None)  # their links are older than the run
    await die(broker)
    await lapsed(broker)
    await asyncio.gather(*(Sweeper(other).sweep() for other in others))
    assert [event["type"] for event in await events(broker, TOPIC)] == ["agent_start", "agent_lost"]
    for other in others:
        await other.aclose()


async def test_run_that_renews_is_left_alone(broker: RedisBroker) -> None:
    sweeper = Sweeper(broker)
    async with Publisher(broker=broker, lease=0.6) as publisher, publisher.run(TOPIC, agent="a") as run:
        began = broker.now()
        await broker.set_due(TOPIC, 0)
        while broker.now() < began + 1500:
            await sweeper.sweep()
            await broker.set_due(TOPIC, 0)
            await asyncio.sleep(0.05)
        await run.delta("alive")
        await run.flush()
    assert await statuses(broker) == ["completed"]


async def test_look_tells_when_to_look_again(broker: RedisBroker) -> None:
    sweeper = Sweeper(broker)
    assert await sweeper.look(TOPIC) is None
    await die(broker, lease=60_000)
    assert await sweeper.look(TOPIC) == (await broker.standing(TOPIC)).deadline
    await broker.set_due(TOPIC, 0)
    await sweeper.sweep()
    assert await broker.due(until=broker.now() + 1000) == []
    assert await broker.due(until=broker.now() + 60_000) == [TOPIC]


async def test_note_of_a_waiting_message_is_left_to_workers(broker: RedisBroker) -> None:
    await send(broker, TOPIC, "m1", "hello")
    sweeper = Sweeper(broker)
    for _ in range(3):
        await sweeper.sweep()
    assert await broker.due(until=broker.now()) == [TOPIC]


async def test_due_topic_without_work_is_not_looked_at_all_the_time(broker: RedisBroker) -> None:
    await broker.set_due(TOPIC, 0)
    sweeper, looks = Sweeper(broker), 0
    look = sweeper.look

    async def counted(topic: Topic) -> int | None:
        nonlocal looks
        looks += 1
        return await look(topic)

    sweeper.look = counted  # type: ignore[method-assign]
    for _ in range(20):
        await sweeper.sweep()
    assert looks == 1
    await broker.set_due(TOPIC, None)
    await sweeper.sweep()
    await broker.set_due(TOPIC, 0)
    await sweeper.sweep()
    assert looks == 2


async def test_link_younger_than_the_lease_buries_nobody(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    await die(broker, lease=1500)
    await lapsed(broker)
    fresh = RedisBroker(redis_url, key_prefix=key_prefix)
    sweeper = Sweeper(fresh)
    before = fresh.now()
    at = await sweeper.look(TOPIC)
    assert at is not None
    assert before + 1000 < at < before + 2500
    assert await statuses(broker) == ["running"]

    async def ended() -> bool:
        return await sweeper.look(TOPIC) is None

    await until(ended)
    assert await statuses(broker) == ["lost"]
    await fresh.aclose()


async def test_link_that_was_late_is_new(tmp_path: Path) -> None:
    """The server was silent, the connection stayed: who hears of it too late to renew is not dead."""
    with RedisServer(tmp_path / "data") as server:
        broker = RedisBroker(server.url, timeout=30)
        lease = round((LATE + 0.5) * 1000)
        await die(broker, lease=lease)
        with server.silent():
            asking = asyncio.create_task(broker.due(until=0))
            await asyncio.sleep(LATE + 0.8)
        await asking
        assert await Sweeper(broker).look(TOPIC) is not None
        assert await statuses(broker) == ["running"]
        await broker.aclose()


@pytest.mark.parametrize("options", [{}, {"appendonly": "yes", "appendfsync": "always"}])
async def test_outage_longer_than_the_lease_kills_nobody(tmp_path: Path, options: dict[str, str]) -> None:
    with RedisServer(tmp_path / "data", options) as server:
        broker, other = RedisBroker(server.url, timeout=1), RedisBroker(server.url, timeout=1)
        sweeping = asyncio.create_task(Sweeper(other).serve())
        # A lease that a process on a busy machine can still keep.
        async with Publisher(broker=broker, lease=2) as publisher, publisher.run(TOPIC, agent="a") as run:
            await run.add_message(Message.user("before"))
            await run.flush()
            with server.away():
                await asyncio.sleep(3)
            await run.add_message(Message.user("after"))
            await run.flush()
        state = await mirror(broker, TOPIC)
        assert [entry["status"] for entry in state["runs"]] == ["completed"]
        assert [entry["data"]["content"] for entry in state["context"]["events"]] == ["before", "after"]
        sweeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sweeping
        await broker.aclose()
        await other.aclose()


async def test_network_that_was_away_for_longer_than_the_lease_kills_nobody(tmp_path: Path) -> None:
    """The server itself stayed, so nothing there tells of the outage: those who were cut off have to know."""
    with RedisServer(tmp_path / "data") as server:
        async with Proxy(server.port) as proxy:
            broker, other = RedisBroker(proxy.url, timeout=1), RedisBroker(proxy.url, timeout=1)
            sweeper = Sweeper(other)
            await die(broker, lease=2000)  # which stands for one that lives, and waits to try again
            await sweeper.sweep()
            await asyncio.sleep(1.5)
            with proxy.cut():
                with pytest.raises(BrokerUnavailableError):
                    await sweeper.sweep()
                await asyncio.sleep(0.6)
            assert await Patience().call(lambda: sweeper.look(TOPIC)) is not None
            assert await Patience().call(lambda: statuses(broker)) == ["running"]
            await broker.aclose()
            await other.aclose()


async def test_run_whose_end_was_written_by_a_sweeper_stays_ended(broker: RedisBroker) -> None:
    actor = await die(broker)
    await lapsed(broker)
    assert await Sweeper(broker).look(TOPIC) is None
    before = await events(broker, TOPIC)
    await actor.append({"type": "log", "message": "late"})
    await actor.end()
    assert await Sweeper(broker).look(TOPIC) is None
    assert await events(broker, TOPIC) == before
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="b"):
        pass
    assert await statuses(broker) == ["lost", "completed"]


# Approvals


async def test_overdue_approval_of_a_run_that_says_nothing_expires(broker: RedisBroker) -> None:
    actor = await die(broker, lease=60_000)
    await actor.ask("c1", deadline=broker.now() + 100)
    await actor.ask("c2", deadline=broker.now() + 60_000)
    await actor.ask("c3")
    sweeper = Sweeper(broker)
    await until(lambda: _expired(broker, sweeper, "c1"))
    approvals = (await mirror(broker, TOPIC))["approvals"]
    assert [approval["decision"] for approval in approvals] == ["expired", None, None]
    top = (await broker.read(TOPIC, START, limit=0)).top
    await sweeper.look(TOPIC)
    assert (await broker.read(TOPIC, START, limit=0)).top == top
    answer = await Person(broker, TOPIC).do("decide", run="r1", tool_call_id="c1", decision="approve")
    assert (answer["won"], answer["decision"]) == (False, "expired")


async def _expired(broker: RedisBroker, sweeper: Sweeper, call: str) -> bool:
    await sweeper.look(TOPIC)
    approvals: list[dict[str, Any]] = (await mirror(broker, TOPIC))["approvals"]
    return any(approval["tool_call_id"] == call and approval["decision"] == "expired" for approval in approvals)


async def test_decided_approval_does_not_expire(broker: RedisBroker) -> None:
    actor = await die(broker, lease=60_000)
    deadline = broker.now() + 300
    await actor.ask("c1", deadline=deadline)
    await Person(broker, TOPIC).do("decide", run="r1", tool_call_id="c1", decision="approve")
    await until(lambda: asyncio.sleep(0.01, broker.now() > deadline))
    assert await Sweeper(broker).look(TOPIC) == (await broker.standing(TOPIC)).deadline
    assert (await mirror(broker, TOPIC))["approvals"][0]["decision"] == "approve"


async def test_question_that_nobody_waits_for_any_more_expires(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    """The run lives, but whoever asked has given up: the topic is due when the question's time is over."""
    async with (
        serve(redis_url, key_prefix),
        Publisher(broker=broker, lease=1.5) as publisher,
        publisher.run(TOPIC, agent="a") as run,
    ):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await run.approval(ToolCall(id="c1", name="rm", arguments="{}"), timeout=0.5)

        async def expired() -> bool:
            (approval,) = (await mirror(broker, TOPIC))["approvals"]
            return bool(approval["decision"] == "expired")

        await until(expired)
        assert await statuses(broker) == ["running"]
    assert await statuses(broker) == ["completed"]

"""A server whose clock is set, and one that was a replica for a while: what open connections know of it is old."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.errors import TopicBusyError
from gateway.publisher import Publisher
from gateway.sweeper import Sweeper
from gateway.types import Topic
from tests.acting import Actor
from tests.publishing import mirror, until
from tests.servers import RedisServer
from tests.serving import append

TOPIC = Topic("chat:42")
HOUR = 3600


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "data", clock=tmp_path / "clock") as server:
        yield server


@pytest.fixture
def _asked_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.broker.wire.IDLE", 0.0)


async def statuses(broker: RedisBroker) -> list[str]:
    return [run["status"] for run in (await mirror(broker, TOPIC))["runs"]]


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.usefixtures("_asked_always")
async def test_dead_run_is_declared_lost_whatever_the_servers_clock_does(server: RedisServer, jump: int) -> None:
    broker = RedisBroker(server.url)
    await Actor(broker, TOPIC, run="r1").start(lease=300)
    server.jump(jump)
    sweeper = Sweeper(broker)

    async def over() -> bool:
        return await sweeper.look(TOPIC) is None

    await until(over)
    assert await statuses(broker) == ["lost"]
    await broker.aclose()


async def test_busy_sweeper_notices_that_the_clock_was_set(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.broker.redis.CLOCK_RENEWAL", 0.0)
    broker = RedisBroker(server.url)
    before = broker.now()
    await broker.due(until=0)
    server.jump(HOUR)

    async def noticed() -> bool:
        await broker.due(until=0)
        return broker.now() - before > HOUR * 1000 / 2

    await until(noticed)
    await broker.aclose()


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.usefixtures("_asked_always")
async def test_topic_of_a_dead_run_is_free_for_the_next_one(server: RedisServer, jump: int) -> None:
    broker = RedisBroker(server.url)
    await Actor(broker, TOPIC, run="r1").start(lease=300)
    server.jump(jump)
    async with Publisher(broker=broker) as publisher:

        async def taken() -> bool:
            with contextlib.suppress(TopicBusyError):
                async with publisher.run(TOPIC, agent="heir"):
                    return True
            return False

        await until(taken)
    assert await statuses(broker) == ["lost", "completed"]
    await broker.aclose()


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.usefixtures("_asked_always")
async def test_live_run_outlives_a_jump_of_the_servers_clock(server: RedisServer, jump: int) -> None:
    broker, other = RedisBroker(server.url), RedisBroker(server.url)
    sweeper = Sweeper(other)
    async with Publisher(broker=broker, lease=1.0) as publisher, publisher.run(TOPIC, agent="a") as run:
        await sweeper.look(TOPIC)
        for _ in range(3):
            server.jump(jump)
            renewed = (await broker.standing(TOPIC)).deadline
            while (await broker.standing(TOPIC)).deadline == renewed:
                await sweeper.look(TOPIC)
                await asyncio.sleep(0.01)
        await run.delta("still here")
        await run.flush()
    assert await statuses(broker) == ["completed"]
    await broker.aclose()
    await other.aclose()


@pytest.mark.usefixtures("_asked_always")
async def test_connection_that_was_idle_over_a_fail_over_and_back_opens_no_epochs(tmp_path: Path) -> None:
    options = {"repl-diskless-sync-delay": "0"}
    with RedisServer(tmp_path / "a", options) as server, RedisServer(tmp_path / "b", options) as other:
        idle, busy = RedisBroker(server.url), RedisBroker(server.url)
        before = await append(idle, TOPIC, {"n": 1})
        async with Redis(port=server.port) as here, Redis(port=other.port) as there:
            await there.replicaof("127.0.0.1", server.port)
            await _follows(there)
            await there.replicaof("NO", "ONE")
            await here.replicaof("127.0.0.1", other.port)
            await _follows(here)
            await here.replicaof("NO", "ONE")
        epochs = {(await append(broker, TOPIC, {"n": 2})).epoch for broker in (idle, RedisBroker(server.url), idle)}
        assert len(epochs) == 1
        assert epochs != {before.epoch}
        await idle.aclose()
        await busy.aclose()


async def _follows(redis: Redis) -> None:
    async def up() -> bool:
        facts = await redis.info("replication")
        return bool(facts["master_link_status"] == "up")

    await until(up)

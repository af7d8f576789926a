"""The broker on real servers that die, roll back, change roles and fall silent."""

import asyncio
import random
import shutil
import time
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.broker import redis as module
from gateway.broker.port import Appended, Broker, Busy, Restore
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerError, BrokerUnavailableError
from gateway.types import START, Position, Topic
from tests.broker.author import Author, act, event, stored
from tests.broker.conftest import TOPIC
from tests.servers import RedisServer, free_port


async def texts(broker: Broker, position: Position = START) -> list[str]:
    return [stored.data.decode()[9:-2] for stored in (await broker.read(TOPIC, position)).events]


def test_broker_implements_the_port(redis_url: str) -> None:
    broker: Broker = RedisBroker(redis_url)
    assert broker.channel(TOPIC) == f"gw:{{{TOPIC}}}"
    assert broker.control_channel(TOPIC) == f"gw:{{{TOPIC}}}:ctl"
    assert broker.wake_channels() == tuple(f"gw:{{{shard}}}:due" for shard in range(64))


@pytest.mark.parametrize("url", ["http://localhost", "localhost:6379", ""])
def test_broker_of_no_redis_url(url: str) -> None:
    with pytest.raises(ValueError, match="redis://"):
        RedisBroker(url)


# Many callers.


async def test_append_of_many_runs_at_once(broker: RedisBroker) -> None:
    async def work(number: int) -> list[int]:
        author = Author(broker, Topic(f"topic:{number}"), run=f"run{number}")
        await author.start()
        return [stored(await author.add(event("x"))).position.offset for _ in range(20)]

    assert await asyncio.gather(*(work(number) for number in range(30))) == [list(range(2, 22))] * 30


async def test_append_whose_caller_gave_up_leaves_the_others_their_answers(broker: RedisBroker) -> None:
    author = Author(broker, TOPIC)
    await author.start()
    calls = [asyncio.create_task(act(broker, TOPIC, str(number))) for number in range(10)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for number in range(1, 10, 2):
        answer = stored(answers[number])
        found = await broker.read(
            TOPIC, Position(epoch=answer.position.epoch, offset=answer.position.offset - 1), limit=1
        )
        assert found.events[0].data == b'{"text":"%d"}' % number


# Connections that end.


async def test_append_while_connections_are_killed_stores_each_once(broker: RedisBroker, redis: Redis) -> None:
    author = Author(broker, TOPIC)
    await author.start()
    tries = 0

    async def insist(text: str) -> None:
        nonlocal tries
        author.seq += 1
        while True:
            tries += 1
            try:
                stored(await author.add(text, seq=author.seq))
            except BrokerUnavailableError:
                continue
            return

    async def kill() -> None:
        while True:
            await redis.client_kill_filter(_type="normal", skipme=True)
            # Now and then long enough for a connection to be made and used, however busy the machine is.
            await asyncio.sleep(random.choice([0, 0.001, 0.005, 0.1]))

    killing = asyncio.create_task(kill())
    for number in range(200):
        await insist(str(number))
    killing.cancel()
    await asyncio.wait([killing])
    assert tries > 200
    history = await broker.read(TOPIC, START)
    assert [stored.offset for stored in history.events] == list(range(1, 202))
    assert await texts(broker) == ["start", *(str(number) for number in range(200))]
    assert len({history.epoch, author.position.epoch}) == 1


async def test_call_to_nobody_is_unavailable_without_secrets() -> None:
    broker = RedisBroker(f"redis://user:secret@127.0.0.1:{free_port()}/0")
    for call in (broker.read(TOPIC, START), broker.topics(), Author(broker, TOPIC).add("a")):
        with pytest.raises(BrokerUnavailableError) as caught:
            await call
        assert "127.0.0.1" in str(caught.value)
        assert "secret" not in str(caught.value)
    await broker.aclose()


async def test_call_to_a_silent_server_is_unavailable_in_time(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        known, unknown = RedisBroker(server.url, timeout=0.2), RedisBroker(server.url, timeout=0.2)
        author = Author(known, TOPIC)
        await author.start()
        with server.silent():
            calls = [known.read(TOPIC, START), author.add("a"), unknown.read(TOPIC, START), unknown.topics()]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(answer) for answer in answers] == [BrokerUnavailableError] * 4
        # It was stored while we gave up on it: the retry hears so.
        assert stored(await author.add("a", seq=author.seq)).position.offset == 2
        assert await texts(known) == ["start", "a"]
        await known.aclose()
        await unknown.aclose()


async def test_call_with_a_wrong_password_is_no_passing_failure(tmp_path: Path) -> None:
    with RedisServer(tmp_path, {"requirepass": "right"}) as server:
        right = RedisBroker(server.url)
        assert (await right.read(TOPIC, START)).top == 0
        await right.aclose()
        for url in (server.url.replace("right", "wrong"), f"redis://127.0.0.1:{server.port}"):
            broker = RedisBroker(url)
            with pytest.raises(BrokerError) as caught:
                await broker.read(TOPIC, START)
            assert not isinstance(caught.value, BrokerUnavailableError)
            assert "wrong@" not in str(caught.value)
            await broker.aclose()


async def test_append_without_memory_is_unavailable_and_stores_nothing(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        broker = RedisBroker(server.url)
        author = Author(broker, TOPIC)
        await author.start()
        async with Redis.from_url(server.url) as redis:
            await redis.config_set("maxmemory", 1)
            for _ in range(2):
                with pytest.raises(BrokerUnavailableError, match="OOM"):
                    await author.add("a", seq=2)
            assert await texts(broker) == ["start"]
            await redis.config_set("maxmemory", 0)
        stored(await author.add("a", seq=2))
        assert await texts(broker) == ["start", "a"]
        await broker.aclose()


async def test_call_after_a_script_flush(broker: RedisBroker, redis: Redis) -> None:
    author = Author(broker, TOPIC)
    await author.start()
    await redis.script_flush()
    stored(await author.add("a"))
    await redis.script_flush()
    assert await texts(broker) == ["start", "a"]


async def test_call_after_aclose(redis_url: str) -> None:
    broker = RedisBroker(redis_url)
    await broker.read(TOPIC, START)
    pending = asyncio.create_task(RedisBroker.read(broker, TOPIC, START))
    await asyncio.sleep(0)
    await broker.aclose()
    answers = await asyncio.gather(pending, broker.read(TOPIC, START), broker.wake(TOPIC), return_exceptions=True)
    assert [type(answer) for answer in answers] == [BrokerUnavailableError] * 3


async def test_aclose_while_it_connects_lets_the_waiting_go(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, server.silent():
        broker = RedisBroker(server.url)
        waiting = asyncio.create_task(broker.read(TOPIC, START))
        await asyncio.sleep(0.01)
        await broker.aclose()
        with pytest.raises(BrokerUnavailableError):
            await waiting


# Histories that go back.


async def test_append_after_a_kill_that_lost_the_newest_restores(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        broker = RedisBroker(server.url)
        author = Author(broker, TOPIC)
        await author.start()
        await author.add("saved")
        async with Redis.from_url(server.url) as redis:
            await redis.save()
        kept = author.position
        await author.add("lost")
        lost = author.position
        with server.away():
            pass
        author.position = lost
        with pytest.raises(BrokerUnavailableError):
            await author.add("next", seq=author.seq + 1)
        answer = await author.add("next", seq=author.seq + 1)
        assert isinstance(answer, Restore)
        assert answer.position.offset == kept.offset
        assert answer.position.epoch != kept.epoch
        assert (answer.append_seq, answer.holder) == ("2", "run1")
        # Who stands where nothing was lost goes on, who is past it is told.
        assert (await broker.read(TOPIC, kept, seen=True)).complete
        assert not (await broker.read(TOPIC, lost, seen=True)).complete
        # The run writes again what was lost, under its old seq.
        author.position = answer.position
        again = stored(await author.add("lost", seq=3))
        assert again.position == Position(epoch=answer.position.epoch, offset=3)
        stored(await author.add("next", seq=4))
        assert await texts(broker, kept) == ["lost", "next"]
        # The offset was given twice: only the epoch tells the two apart.
        assert (again.position.offset, again.position.epoch != lost.epoch) == (lost.offset, True)
        assert not (await broker.read(TOPIC, lost)).complete
        await broker.aclose()


async def test_append_after_a_clean_restart_loses_nobody(tmp_path: Path) -> None:
    with RedisServer(tmp_path, {"appendonly": "yes", "appendfsync": "always"}) as server:
        broker = RedisBroker(server.url)
        author = Author(broker, TOPIC)
        await author.start()
        await author.delta("a")
        before = author.position
        with server.away():
            pass
        while True:
            try:
                answer = stored(await author.add(event("b", kind="e", message="m1"), seq=9))
                break
            except BrokerUnavailableError:
                continue
        assert answer.position.offset == before.offset + 1
        assert answer.position.epoch != before.epoch
        history = await broker.read(TOPIC, before, seen=True)
        assert (history.complete, [stored.offset for stored in history.events]) == (True, [3])
        await broker.aclose()


async def test_read_after_the_data_directory_was_copied_back(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "data") as server:
        broker = RedisBroker(server.url)
        author = Author(broker, TOPIC)
        await author.start()
        async with Redis.from_url(server.url) as redis:
            await redis.save()
            shutil.copy(tmp_path / "data/dump.rdb", tmp_path / "copy.rdb")
            kept = author.position
            await author.add("a")
            await redis.save()
        with server.away():
            shutil.copy(tmp_path / "copy.rdb", tmp_path / "data/dump.rdb")
        fresh = RedisBroker(server.url)
        other = Author(fresh, TOPIC, run="run2")
        other.position = kept
        # The lease is back, its deadline not in the past.
        assert isinstance(await other.add("b", lease=1000), Busy)
        assert isinstance(await fresh.declare_lost(TOPIC, run="run1", data=b"{}", position=kept), Busy)
        history = await fresh.read(TOPIC, author.position, seen=True)
        assert (history.complete, history.top) == (False, kept.offset)
        assert history.epoch != kept.epoch
        assert (await fresh.read(TOPIC, kept, seen=True)).complete
        await fresh.aclose()
        await broker.aclose()


async def test_append_to_a_demoted_master_waits_for_a_master(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        broker = RedisBroker(server.url)
        author = Author(broker, TOPIC)
        await author.start()
        await broker.read(TOPIC, START)
        async with Redis.from_url(server.url) as redis:
            await redis.replicaof("127.0.0.1", free_port())
            with pytest.raises(BrokerUnavailableError, match="READONLY"):
                await author.add("a")
            # Neither connection goes on with what may lag behind.
            for call in (author.add("a", seq=author.seq), broker.read(TOPIC, START)):
                with pytest.raises(BrokerUnavailableError, match="replica"):
                    await call
            await redis.replicaof("NO", "ONE")
        before = author.position
        answer = stored(await author.add("a", seq=author.seq))
        assert answer.position.epoch != before.epoch
        assert await texts(broker, before) == ["a"]
        await broker.aclose()


# The indexes.


async def test_topics_lists_the_newest_first(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await broker.topics() == []
    monkeypatch.setattr(module, "INDEX_REFRESH", 0)
    names = [Topic(f"t:{number}") for number in range(5)]
    for name in [*names, names[1]]:
        await act(broker, name, "x")
        start = broker.now()
        while broker.now() == start:
            await asyncio.sleep(0.001)
    found = await broker.topics()
    assert [name for name, _ in found] == [names[1], names[4], names[3], names[2], names[0]]
    assert all(abs(at - broker.now()) < 60_000 for _, at in found)
    assert await broker.topics(limit=2) == found[:2]
    assert await broker.topics(limit=0) == []


async def test_topics_forgets_what_has_expired(redis_url: str, key_prefix: str, redis: Redis) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, ttl=1000)
    key = broker.channel(TOPIC)
    await act(broker, TOPIC, "1")
    (index,) = await redis.keys(f"{key_prefix}:*:topics")
    await redis.zadd(index, {"old": broker.now() - 2_000_000})
    assert await broker.topics() == [(TOPIC, (await broker.topics())[0][1])]
    await broker.aclose()
    again = RedisBroker(redis_url, key_prefix=key_prefix, ttl=1000)
    await act(again, TOPIC, "2")
    assert await redis.zrange(index, 0, -1) == [TOPIC.encode()]
    assert await redis.exists(key)
    await again.aclose()


async def test_append_writes_the_index_before_the_topic(broker: RedisBroker, redis: Redis) -> None:
    commands = []
    async with redis.monitor() as monitor:
        await act(broker, TOPIC, "1")
        await act(broker, TOPIC, "2")
        async for command in monitor.listen():
            commands.append(command["command"].split(" ")[0])
            if commands.count("EVALSHA") == 2:
                break
    assert commands.index("ZADD") < commands.index("EVALSHA")
    assert commands.count("ZADD") == 1


async def test_due_lists_what_is_due(broker: RedisBroker) -> None:
    for number in range(10):
        await broker.set_due(Topic(f"t:{number}"), number * 1000)
    assert sorted(await broker.due(until=3000)) == [f"t:{number}" for number in range(4)]
    await broker.set_due(Topic("t:0"), None)
    await broker.set_due(Topic("t:1"), 5000)
    assert sorted(await broker.due(until=3000)) == ["t:2", "t:3"]


async def test_wake_reaches_its_channel(broker: RedisBroker, redis: Redis) -> None:
    async with redis.pubsub() as pubsub:
        await pubsub.subscribe(*broker.wake_channels())
        for _ in broker.wake_channels():
            await pubsub.get_message(timeout=5)
        await broker.wake(TOPIC)
        message = await pubsub.get_message(timeout=5)
    assert message["data"] == TOPIC.encode()
    assert message["channel"].decode() in broker.wake_channels()


# The clock.


async def test_now_is_the_servers_time(broker: RedisBroker, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    assert abs(broker.now() - time.time() * 1000) < 1000
    await broker.read(TOPIC, START)
    seconds, micros = await redis.time()
    assert abs(broker.now() - seconds * 1000 - micros / 1000) < 1000
    author = Author(broker, TOPIC)
    await author.start()
    wire = await broker._steps.wire("")
    wire.skew += 50_000
    assert isinstance(await renewed(author), Appended)
    assert wire.skew - (await broker._pages.wire("")).skew > 40_000
    monkeypatch.setattr(module, "CLOCK_RENEWAL", -1)
    await renewed(author)
    assert abs(wire.skew - (await broker._pages.wire("")).skew) < 1000


async def renewed(author: Author) -> object:
    return await author.broker.renew(TOPIC, run=author.run, token=author.token, lease=1000, position=author.position)

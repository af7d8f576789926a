"""delete.lua, and what its tombstone refuses: a test per branch, on a real server."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.broker.keys import SHARDS, Keys, shard_of
from gateway.broker.port import Appended, Deleted, Deletion, Fenced, Restore, Stale, Trimmed
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError
from gateway.types import START, Position, Topic, new_id
from tests.broker.author import Author, act, stored
from tests.broker.conftest import TOPIC
from tests.servers import RedisServer

Result = TypeVar("Result")


async def delete(broker: RedisBroker, topic: Topic = TOPIC) -> Deletion:
    """Delete what is there now."""
    history = await broker.read(topic, START, limit=0)
    deletion = await broker.delete(topic, epochs=history.epoch)
    assert deletion is not None
    return deletion


async def renewed(author: Author) -> object:
    return await author.broker.renew(
        author.topic, run=author.run, token=author.token, lease=1000, position=author.position
    )


async def written(broker: RedisBroker) -> Author:
    """A topic that has everything, with a run on it."""
    author = Author(broker, TOPIC)
    await author.start()
    for text in "abc":
        await author.add(text)
    await act(broker, TOPIC, "action")
    assert await broker.archive(TOPIC, {0: b"{}"}, position=author.position)
    assert isinstance(await broker.trim(TOPIC, b"{}", position=author.position, size=10), Trimmed)
    await author.delta("open")
    assert await broker.store_blobs(TOPIC, {"a": b"1" * 10}, run=author.run, position=author.position) is None
    await broker.attendance.add(TOPIC, ["client user"], ttl=60)
    await broker.set_due(TOPIC, 1)
    return author


# the deletion


async def test_delete_leaves_nothing_but_the_names_of_what_was(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...], key_prefix: str
) -> None:
    author = await written(broker)
    every = Keys(key_prefix).deletion(TOPIC)
    assert await redis.exists(*every) == 7
    deletion = await delete(broker)
    assert await redis.exists(*every) == 1
    state = await redis.hgetall(keys[0])
    assert state[b"gone"] == deletion.gone.encode() == f" {author.position.epoch} /run1 ".encode()
    assert not [field for field in state if b":" in field], "records of writers, runs, approvals or messages"
    assert state[b"lease"] == b""
    history = await broker.read(TOPIC, START)
    assert (history.epoch, history.top, history.floor, history.seq, history.hash) == (deletion.epoch, 0, 0, 0, "")
    assert history.epoch != author.position.epoch
    assert history.events == ()
    assert 0 < await redis.ttl(keys[0]) <= 30 * 24 * 3600
    assert await broker.topics() == []
    assert await broker.due(until=2**50) == []


async def test_readers_of_the_deleted_history_may_not_go_on(broker: RedisBroker) -> None:
    author = await written(broker)
    await delete(broker)
    history = await broker.read(TOPIC, author.position, seen=True)
    assert not history.complete
    assert history.snapshot is None
    assert (await broker.read(TOPIC, START)).complete


async def test_delete_tells_hubs_and_the_run(broker: RedisBroker, redis: Redis, keys: tuple[str, ...]) -> None:
    await written(broker)
    async with redis.pubsub() as heard:
        await heard.subscribe(keys[0], f"{keys[0]}:ctl")
        for _ in range(2):
            await heard.get_message(timeout=5)
        deletion = await delete(broker)
        told = [await heard.get_message(ignore_subscribe_messages=True, timeout=5) for _ in range(2)]
    assert [message and message["data"].decode() for message in told] == [
        f"{deletion.epoch} 0 0 deleted\n",
        f"{deletion.epoch} 0",
    ]


async def test_delete_of_what_nobody_wrote_creates_nothing(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...]
) -> None:
    await broker.store_blobs(TOPIC, {"a": b"1"}, run="r", position=START)
    assert await broker.delete(TOPIC, epochs="") == Deletion()
    assert await redis.exists(*keys) == 0


async def test_delete_repeated_deletes_nothing_newer(broker: RedisBroker) -> None:
    author = await written(broker)
    first = await delete(broker)
    again = stored(await act(broker, TOPIC, "later"))
    assert again.position == Position(epoch=first.epoch, offset=1)
    assert await broker.delete(TOPIC, epochs=author.position.epoch) == first
    assert (await broker.read(TOPIC, START)).top == 1


async def test_delete_of_another_history_is_refused(broker: RedisBroker) -> None:
    await written(broker)
    assert await broker.delete(TOPIC, epochs="NoNoNoNo") is None
    assert (await broker.read(TOPIC, START)).top > 0


async def test_delete_takes_what_an_epoch_went_on_as(broker: RedisBroker) -> None:
    author = await written(broker)
    later = await broker.read(TOPIC, Position(epoch=author.position.epoch, offset=99), seen=True)
    assert later.epoch != author.position.epoch
    deletion = await broker.delete(TOPIC, epochs=author.position.epoch)
    assert deletion is not None
    assert deletion.gone == f" {later.epoch} {author.position.epoch} /run1 "


async def test_delete_remembers_a_bounded_number_of_names(broker: RedisBroker) -> None:
    author = Author(broker, TOPIC)
    for number in range(300):
        author.run = f"run{number}"
        await author.start()
        await author.end()
    deletion = await delete(broker)
    assert len(deletion.gone.split()) == 256
    for _ in range(3):
        await act(broker, TOPIC, new_id())
        deletion = await delete(broker)
    assert len(deletion.gone.split()) == 256
    first = stored(await act(broker, TOPIC, "after"))
    assert first.position.epoch == deletion.epoch


async def test_delete_survives_the_loss_of_a_part_of_what_came_after(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...]
) -> None:
    author = await written(broker)
    await delete(broker)
    await act(broker, TOPIC, "later")
    await redis.delete(keys[1])
    assert isinstance(await author.add("late"), Deleted)


async def test_delete_works_where_memory_is_full(tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path) as server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        await written(broker)
        async with Redis.from_url(server.url) as redis:
            await redis.config_set("maxmemory", "1")
            deletion = await broker.delete(TOPIC, epochs=(await broker.read(TOPIC, START, limit=0)).epoch)
            await redis.config_set("maxmemory", "0")
        assert deletion is not None
        assert (await broker.read(TOPIC, START)).epoch == deletion.epoch
        await broker.aclose()


async def test_a_topic_written_again_is_listed_again(broker: RedisBroker) -> None:
    await written(broker)
    await delete(broker)
    await act(broker, TOPIC, "later")
    assert [topic for topic, _ in await broker.topics()] == [TOPIC]


# what is refused afterwards


async def test_the_run_is_told_and_stores_nothing(broker: RedisBroker, redis: Redis, keys: tuple[str, ...]) -> None:
    author = await written(broker)
    deletion = await delete(broker)
    told = Deleted(position=Position(epoch=deletion.epoch))
    assert await author.add("late") == told
    assert await author.end() == told
    assert await author.add("late", position=START) == told
    assert await renewed(author) == told
    assert await author.add("anew", lease=1000) == told
    assert (await broker.read(TOPIC, START)).top == 0
    assert await redis.exists(*keys[1:]) == 0
    assert await broker.topics() == [], "a refused append lists the topic"


async def test_an_earlier_run_is_not_told_to_restore(broker: RedisBroker) -> None:
    # It was declared lost, and only its process does not know it; its end is forgotten with the topic.
    author = Author(broker, TOPIC)
    await author.start(lease=1)
    while not isinstance(
        await broker.declare_lost(TOPIC, run=author.run, data=b"{}", position=author.position), Appended
    ):
        await asyncio.sleep(0.01)
    await delete(broker)
    assert isinstance(await author.add("late"), Deleted)
    assert isinstance(await renewed(author), Deleted)


async def test_a_run_that_was_declared_lost_does_not_begin_again(broker: RedisBroker) -> None:
    # The answer to its first append was lost, and it tries it again.
    author = Author(broker, TOPIC)
    await author.start(lease=1)
    while not isinstance(await broker.declare_lost(TOPIC, run=author.run, data=b"{}", position=START), Appended):
        await asyncio.sleep(0.01)
    await delete(broker)
    assert isinstance(await author.add("start", seq=1, lease=1000, position=START), Deleted)


async def test_another_run_may_begin(broker: RedisBroker) -> None:
    author = await written(broker)
    deletion = await delete(broker)
    other = Author(broker, TOPIC, run="run2")
    assert (await other.start()).position == Position(epoch=deletion.epoch, offset=1)
    assert isinstance(await renewed(other), Appended)
    assert isinstance(await author.add("late"), Deleted)
    assert isinstance(await other.add("on"), Appended)


async def test_snapshot_and_archive_of_the_deleted_history_are_stale(broker: RedisBroker) -> None:
    author = await written(broker)
    await delete(broker)
    assert isinstance(await broker.trim(TOPIC, b"{}", position=author.position, size=1), Stale)
    assert isinstance(await broker.archive(TOPIC, {1: b"{}"}, position=author.position), Stale)


async def test_large_values_of_the_run_are_refused(broker: RedisBroker, redis: Redis, keys: tuple[str, ...]) -> None:
    author = await written(broker)
    deletion = await delete(broker)
    told = Deleted(position=Position(epoch=deletion.epoch))
    assert await broker.store_blobs(TOPIC, {"a": b"1"}, run="x", position=author.position) == told
    assert await broker.store_blobs(TOPIC, {"a": b"1"}, run="run1", position=START) == told
    assert await redis.exists(keys[5]) == 0
    assert await broker.store_blobs(TOPIC, {"a": b"1"}, run="x", position=START) is None


async def test_large_values_written_during_the_deletion_do_not_stay(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...]
) -> None:
    author = await written(broker)
    values = {str(number): b"1" * 100_000 for number in range(20)}
    storing = asyncio.create_task(broker.store_blobs(TOPIC, values, run=author.run, position=author.position))
    while not await redis.hexists(keys[5], "3"):
        await asyncio.sleep(0)
    await delete(broker)
    assert isinstance(await storing, Deleted)
    assert await redis.exists(keys[5]) == 0 or await redis.hkeys(keys[5]) == [b"bytes"]


# a server that comes back with it


async def test_what_an_older_server_brings_back_is_deleted_again(tmp_path: Path, key_prefix: str) -> None:
    server, data = RedisServer(tmp_path / "now", {"save": "3600 1"}), tmp_path / "now" / "dump.rdb"
    with server:
        broker, witness = (RedisBroker(server.url, key_prefix=key_prefix) for _ in range(2))
        author = await written(broker)
        await witness.read(TOPIC, START)
        server.stop()
        shutil.copy(data, tmp_path / "old.rdb")
        server.start()
        deletion = await insisted(lambda: delete(broker))
        witness.keep_deleted(TOPIC, deletion.gone)
        with_it = await broker.read(TOPIC, START)
        assert with_it.top == 0
        server.kill()
        shutil.copy(tmp_path / "old.rdb", data)
        server.start()
        async with Redis.from_url(server.url) as redis:
            assert await redis.xlen(Keys(key_prefix).of(TOPIC)[1]) > 0, "the server has come back with the topic"
        history = await insisted(lambda: witness.read(TOPIC, START))
        assert (history.top, history.events) == (0, ())
        assert isinstance(await author.add("late"), Deleted)
        await broker.aclose()
        await witness.aclose()


async def insisted(call: Callable[[], Awaitable[Result]]) -> Result:
    """Repeat a call until the server is back."""
    while True:
        try:
            return await call()
        except BrokerUnavailableError:
            await asyncio.sleep(0.01)


# together with everything else


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.lists(st.sampled_from(["append", "act", "delta", "trim", "delete", "read", "blob"]), min_size=4))
async def test_no_order_of_things_brings_anything_back(redis_url: str, key_prefix: str, order: list[str]) -> None:
    """All at once, on connections of their own; in the end there is only what came after the last deletion."""
    topic = Topic(f"t{new_id()}")
    brokers = [RedisBroker(redis_url, key_prefix=key_prefix) for _ in range(3)]
    author = Author(brokers[0], topic)
    await author.start()
    old = author.position.epoch

    async def one(index: int, what: str) -> None:
        broker = brokers[index % 3]
        match what:
            case "append":
                assert isinstance(await author.add(f"mark-{index}", seq=index + 100), Appended | Deleted)
            case "delta":
                await author.add(f"mark-{index}", seq=index + 100)
            case "act":
                await act(broker, topic, f"a{index}")
            case "trim":
                await broker.trim(topic, b"{}", position=Position(epoch=old, offset=1), size=1)
            case "blob":
                await broker.store_blobs(topic, {f"b{index}": b"x"}, run=author.run, position=author.position)
            case "read":
                history = await broker.read(topic, Position(epoch=old, offset=1), seen=True)
                assert history.complete == (history.epoch == old)
            case "delete":
                await broker.delete(topic, epochs=old)

    try:
        await asyncio.gather(*(one(index, what) for index, what in enumerate(order)))
        await brokers[1].delete(topic, epochs=old)
        history = await brokers[1].read(topic, START)
        assert history.epoch != old
        assert not [event for event in history.events if b"mark-" in event.data], "the run wrote after the deletion"
        assert history.snapshot is None
        async with Redis.from_url(redis_url) as redis:
            assert not set(await redis.hkeys(Keys(key_prefix).of(topic)[5])) - {b"bytes"}
        answers = await asyncio.gather(author.add("late", seq=9999), renewed(author))
        assert all(isinstance(answer, Deleted) for answer in answers), answers
    finally:
        for broker in brokers:
            await broker.aclose()


async def test_indexes_of_every_shard_lose_a_deleted_topic(broker: RedisBroker) -> None:
    topics = [Topic(f"many{number}") for number in range(100)]
    assert len({shard_of(topic) for topic in topics}) > SHARDS // 2
    for topic in topics:
        await act(broker, topic, "x")
        await delete(broker, topic)
    assert await broker.topics() == []
    assert isinstance(await Author(broker, topics[0], run="r").add("x"), Fenced | Restore)


@pytest.mark.parametrize("writer", ["run", "people"])
async def test_who_had_written_nothing_to_the_history_is_not_refused(broker: RedisBroker, writer: str) -> None:
    await written(broker)
    deletion = await delete(broker)
    if writer == "people":
        answer = await act(broker, TOPIC, "x", position=START)
    else:
        answer = await Author(broker, TOPIC, run="run9").add("x", lease=1000)
    assert stored(answer).position == Position(epoch=deletion.epoch, offset=1)


# how long it lasts


async def test_an_answered_deletion_is_on_the_servers_disk(tmp_path: Path, key_prefix: str) -> None:
    # Written to disk at once a second only, unless somebody waits for it.
    with RedisServer(tmp_path, {"appendonly": "yes", "appendfsync": "everysec"}) as server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        author = await written(broker)
        async with Redis.from_url(server.url) as redis, redis.monitor() as monitor:
            deletion = await delete(broker)
            heard = []
            async for command in monitor.listen():
                heard.append(command["command"].split(" ")[0])
                if heard[-1] == "ZREM":
                    break
        async with Redis.from_url(server.url) as redis:
            version = str((await redis.info("server"))["redis_version"])
        if tuple(map(int, version.split("."))) < (7, 2):
            pytest.skip("servers before 7.2 write to the disk when they like")
        assert heard.index("EVALSHA") < heard.index("WAITAOF") < heard.index("ZREM")
        with server.away():
            pass
        history = await insisted(lambda: broker.read(TOPIC, START))
        assert (history.top, history.events) == (0, ())
        assert deletion.gone.startswith(f" {author.position.epoch} ")
        await broker.aclose()


async def test_an_answered_deletion_is_on_the_replica(
    tmp_path: Path, key_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(tmp_path / "master", {"repl-diskless-sync-delay": "0"}) as master:
        options = {"replicaof": f"127.0.0.1 {master.port}"}
        with RedisServer(tmp_path / "replica", options) as replica:
            broker = RedisBroker(master.url, key_prefix=key_prefix)
            await written(broker)
            async with Redis.from_url(master.url) as redis, Redis.from_url(replica.url) as follower:
                while await redis.wait(1, 100) < 1:
                    await act(broker, TOPIC, new_id())
                deletion = await delete(broker)
                assert await follower.hget(Keys(key_prefix).of(TOPIC)[0], "epoch") == deletion.epoch.encode()
                assert not caplog.records
                await act(broker, TOPIC, "again")
                with replica.silent():
                    assert (await delete(broker)).epoch
                assert "has not reached every replica" in caplog.text
            await broker.aclose()


@pytest.mark.parametrize("first", ["gateway", "run"])
async def test_a_server_that_lost_everything_gets_nothing_back_from_a_run(
    tmp_path: Path, key_prefix: str, first: str
) -> None:
    with RedisServer(tmp_path) as server:
        gateway, agent = (RedisBroker(server.url, key_prefix=key_prefix) for _ in range(2))
        author = await written(agent)
        await delete(gateway)
        # Nothing of it was saved, the deletion neither, and the run has not heard of it.
        with server.away():
            pass
        if first == "gateway":
            await insisted(lambda: gateway.read(TOPIC, START))
        answer = await insisted(lambda: author.add("late"))
        if first == "run":
            # Told to write everything again, it does so.
            assert isinstance(answer, Restore)
            author.position = answer.position
            assert isinstance(await author.add("start", seq=1, lease=30_000), Appended)
            await insisted(lambda: gateway.read(TOPIC, START))
        assert isinstance(await author.add("late"), Deleted)
        assert (await gateway.read(TOPIC, START)).top == 0
        await gateway.aclose()
        await agent.aclose()

"""A topic deleted under those who read and write it, over every road."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.actions import Actions, Caller
from gateway.blobs import LARGE
from gateway.broker.keys import Keys
from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.context.messages import Message
from gateway.errors import FencedError, TopicDeletedError
from gateway.grants import EVERYTHING
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.types import START, Topic
from tests.publishing import events, until
from tests.servers import RedisServer
from tests.serving import Gateway, eventually, serve

TOPIC = Topic("chat:1/a")


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


# the run


@pytest.mark.parametrize("then", ["adds", "idles", "ends"])
async def test_a_run_ends_with_its_topic_and_writes_nothing_more(
    broker: RedisBroker, redis: Redis, key_prefix: str, served: Gateway, then: str
) -> None:
    answers = []

    async def run_it() -> None:
        async with (
            Publisher(broker=broker, lease=0.3 if then == "idles" else 30) as publisher,
            publisher.run(TOPIC, agent="a") as run,
        ):
            await run.add_message(Message.user("x" * (LARGE + 1)))
            await run.delta("some text")
            await run.flush()
            async with Client(served.http) as client:
                answers.append(await client.delete(TOPIC))
            if then == "idles":
                await asyncio.sleep(60)
            elif then == "adds":
                await run.add_message(Message.user("y" * (LARGE + 1)))
                await run.flush()

    with pytest.raises(TopicDeletedError, match=rf"topic {re.escape(TOPIC)} was deleted; run \w+ has ended"):
        await run_it()
    (answer,) = answers
    assert answer["deleted"] is True
    assert await events(broker, TOPIC) == []
    assert await redis.exists(*Keys(key_prefix).of(TOPIC)) == 1
    assert await broker.topics() == []
    history = await broker.read(TOPIC, START, limit=0)
    assert (history.epoch, history.top) == (answer["epoch"], 0)


async def test_a_run_in_full_flow_races_its_deletion(broker: RedisBroker) -> None:
    for _ in range(5):
        writing = asyncio.Event()

        async def write(started: asyncio.Event = writing) -> None:
            async with Publisher(broker=broker, flush_interval=0) as publisher, publisher.run(TOPIC, agent="a") as run:
                while True:
                    for piece in "abcdefgh":
                        await run.delta(piece)
                    await run.add_message(Message.assistant("abcdefgh"))
                    started.set()
                    await asyncio.sleep(0)

        task = asyncio.create_task(write())
        await writing.wait()
        epoch = (await broker.read(TOPIC, START, limit=0)).epoch
        assert await broker.delete(TOPIC, epochs=epoch) is not None
        with pytest.raises(TopicDeletedError):
            await task
        assert await events(broker, TOPIC) == []


async def test_a_new_run_begins_from_nothing(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            await run.add_message(Message.user("secret"))
        await Actions(broker).methods["delete"](Caller(client="c", identity=EVERYTHING), {"topic": TOPIC})
        async with publisher.run(TOPIC, agent="a") as run:
            assert run.context.entries == ()
            await run.add_message(Message.user("new"))
    assert "secret" not in str(await events(broker, TOPIC))


def test_the_error_is_a_fence_that_says_what_it_is() -> None:
    error = TopicDeletedError(topic="t", run="r")
    assert isinstance(error, FencedError)
    assert (error.topic, error.run, error.holder) == ("t", "r", "")
    assert "deleted" in str(error)


# readers


async def test_mirrors_of_all_gateways_become_empty(
    redis_url: str, key_prefix: str, broker: RedisBroker, served: Gateway
) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("hi"))
    async with serve(redis_url, key_prefix) as other, served.plain() as one, other.plain() as two:
        for reader in (one, two):
            reply = await reader.ask("subscribe", {"channel": TOPIC, "data": {"mirror": True}})
            assert reply["data"]["snapshot"]["mirror"]["runs"]
        answer = (await two.ask("rpc", {"method": "delete", "data": {"topic": TOPIC}}))["data"]
        for reader in (one, two):
            data = (await reader.push())["pub"]["data"]
            assert (data["epoch"], data["offset"]) == (answer["epoch"], 0)
            assert data["mirror"] == Mirror(TOPIC).snapshot()["mirror"]


async def test_who_reads_a_deleted_topic_is_still_present(served: Gateway, broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a"):
        pass
    async with served.plain() as mirror:
        await mirror.ask("subscribe", {"channel": TOPIC, "data": {"mirror": True}})
        assert (await mirror.ask("presence_stats", {"channel": TOPIC}))["num_clients"] == 1
        await mirror.ask("rpc", {"method": "delete", "data": {"topic": TOPIC}})

        async def present() -> bool:
            return bool((await mirror.ask("presence_stats", {"channel": TOPIC}))["num_clients"] == 1)

        await until(present)


# over HTTP


async def test_delete_over_http(served: Gateway, broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a"):
        pass
    path = f"/topics/{TOPIC.replace('/', '%2F')}"
    async with httpx.AsyncClient(base_url=served.http, trust_env=False) as http:
        answer = await http.delete(path)
        assert answer.status_code == 200
        assert answer.json() == {
            "topic": TOPIC,
            "deleted": True,
            "epoch": (await broker.read(TOPIC, START, limit=0)).epoch,
        }
        assert (await http.get(path)).json()["offset"] == 0
        assert (await http.delete("/topics/nobody")).json() == {"topic": "nobody", "deleted": False, "epoch": ""}
        assert (await http.delete("/topics/a b")).status_code == 404
        assert (await http.delete(f"{path}/archive")).status_code == 405


async def test_delete_needs_its_grant(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix, api_keys="a-key-of-sixteen-characters") as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False) as http,
    ):
        for headers, status in (({}, 401), ({"x-api-key": "a-key-of-sixteen-characters"}, 200)):
            assert (await http.delete("/topics/t", headers=headers)).status_code == status
            assert (await http.get("/topics/t/export", headers=headers)).status_code == status


# a server that comes back with the topic


async def test_a_rollback_brings_nothing_back_to_any_reader(tmp_path: Path, key_prefix: str) -> None:
    """Two gateways; the data of before the deletion come back while both run, and the run is still alive."""
    server = RedisServer(tmp_path / "now", {"save": "3600 1"})
    data = tmp_path / "now" / "dump.rdb"
    with server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        publisher = Publisher(broker=broker, lease=60)
        writing = publisher.run(TOPIC, agent="a")
        run = await writing.__aenter__()
        await run.add_message(Message.user("secret"))
        await run.flush()
        async with Redis.from_url(server.url) as redis:
            await redis.save()
        shutil.copy(data, tmp_path / "old.rdb")
        async with serve(server.url, key_prefix) as one, serve(server.url, key_prefix) as two:
            async with one.plain() as first, two.plain() as second:
                for reader in (first, second):
                    await reader.ask("subscribe", {"channel": TOPIC, "data": {"mirror": True}})
                await first.ask("rpc", {"method": "delete", "data": {"topic": TOPIC}})
                for reader in (first, second):
                    assert (await reader.push())["pub"]["data"]["mirror"]["runs"] == []
                server.kill()
                shutil.copy(tmp_path / "old.rdb", data)
                server.start()
                await eventually(lambda: one.hub.sure and two.hub.sure)
                for gateway in (one, two):
                    async with httpx.AsyncClient(base_url=gateway.http, trust_env=False) as http:
                        answer = await http.get(f"/topics/{TOPIC.replace('/', '%2F')}")
                        assert "secret" not in answer.text
                        assert answer.json()["offset"] == 0
                for reader in (first, second):
                    await reader.ask("ping", {})
                    assert "secret" not in str(reader.pushes)

            async def go_on() -> None:
                while True:
                    await run.delta("late")

            with pytest.raises(TopicDeletedError):
                await go_on()
        assert await events(broker, TOPIC) == []
        with pytest.raises(TopicDeletedError):
            await writing.__aexit__(None, None, None)
        await publisher.aclose()
        await broker.aclose()

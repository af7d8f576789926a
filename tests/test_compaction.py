"""A compaction in the agent shows in every mirror at once, from whatever position it reads, and survives a rollback."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.client import Client, Subscription
from gateway.codec import encode_json
from gateway.context.context import Context
from gateway.context.messages import Message
from gateway.errors import HistoryConflictError
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import Topic
from tests.publishing import mirror
from tests.servers import RedisServer
from tests.serving import Gateway, serve

TOPIC = Topic("t")


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def publisher(broker: RedisBroker) -> AsyncIterator[Publisher]:
    async with Publisher(broker=broker) as publisher:
        yield publisher


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as served:
        yield served


async def stored(publisher: Publisher) -> dict[str, Any]:
    """Give the topic's snapshot, as a reader would keep it."""
    snapshot: dict[str, Any] = json.loads(json.dumps((await publisher.read(TOPIC)).mirror.snapshot()))
    return snapshot


async def talk(publisher: Publisher, run: Run, *numbers: int) -> list[dict[str, Any]]:
    """Say something; gives the topic's states at every position in between, in mid-message too."""
    found = []
    for number in numbers:
        await run.delta(f"message {number}")
        await run.flush()
        found.append(await stored(publisher))
        await run.add_message(Message.assistant(f"message {number}"))
        await run.flush()
        found.append(await stored(publisher))
    return found


async def compact(run: Run, first: int, last: int, text: str) -> None:
    await run.change_context(lambda context: context.replace_message_range(first, last, Message.system(text)))
    await run.flush()


async def caught_up(subscription: Subscription, offset: int) -> dict[str, Any]:
    """Read until a position, and give the mirror there."""
    async with asyncio.timeout(30):
        async for update in subscription:
            if update.position.offset >= offset:
                return update.mirror.snapshot()
    raise AssertionError("the subscription ended")


def texts(snapshot: dict[str, Any]) -> list[Any]:
    return [message["content"] for message in Mirror.restore(snapshot).messages()]


async def everyone(served: Gateway, since: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give what readers have in the end who begin at these states, at the first event, or now."""
    async with httpx.AsyncClient(base_url=served.http) as http:
        top = (await http.get(f"/topics/{TOPIC}")).json()
    found = [top]
    for begin in [*map(Mirror.restore, since), None]:
        if begin is not None and begin.offset == top["offset"]:
            continue
        async with Client(served.http) as client:
            found.append(await caught_up(client.subscribe(TOPIC, since=begin), top["offset"]))
    return found


async def test_compaction_shows_in_every_mirror_from_any_position(
    publisher: Publisher, broker: RedisBroker, served: Gateway
) -> None:
    saved = [Mirror(TOPIC).snapshot()]
    async with Client(served.http) as early, Client(served.http) as inside:
        first = early.subscribe(TOPIC, since="start")
        async with publisher.run(TOPIC, agent="a") as run:
            saved += await talk(publisher, run, 0, 1, 2)
            second = inside.subscribe(TOPIC)
            await caught_up(second, saved[-1]["offset"])
            saved += await talk(publisher, run, 3, 4)
            await compact(run, 1, 3, "summary")
            saved.append(await stored(publisher))
            for live in (first, second):
                assert texts(await caught_up(live, run.position.offset)) == ["message 0", "summary", "message 4"]
            saved += await talk(publisher, run, 5)
            ends = await everyone(served, saved)
            assert texts(ends[0]) == ["message 0", "summary", "message 4", "message 5"]
            assert all(end == ends[0] for end in ends)

            # After a trim the same, whoever comes from below the floor, inside it or above.
            state = await publisher.read(TOPIC)
            await broker.trim(TOPIC, encode_json(state.mirror.snapshot()), position=state.position, size=state.size)
            saved += await talk(publisher, run, 6)
            await compact(run, 0, 2, "wider summary")
            ends = await everyone(served, saved)
            assert texts(ends[0]) == ["wider summary", "message 5", "message 6"]
            assert all(end == ends[0] for end in ends)
            for live in (first, second):
                assert await caught_up(live, run.position.offset) == ends[0]
            assert [message.text for message in run.context.messages] == texts(ends[0])


async def test_adopted_context_shows_in_every_mirror(publisher: Publisher, served: Gateway) -> None:
    saved = []
    async with publisher.run(TOPIC, agent="a") as run:
        saved += await talk(publisher, run, 0, 1, 2)
        await compact(run, 0, 1, "summary")
    mine = Context.new(messages=[Message.user("a"), Message.user("b")]).replace_message_range(0, 1, Message.user("ab"))
    with pytest.raises(HistoryConflictError):
        await publisher.run(TOPIC, agent="b", context=mine).__aenter__()
    async with publisher.run(TOPIC, agent="b", context=mine, adopt=True) as run:
        saved += await talk(publisher, run, 9)
        await compact(run, 0, 0, "AB")
        ends = await everyone(served, saved)
    assert texts(ends[0]) == ["AB", "message 9"]
    assert all(end == ends[0] for end in ends)


async def test_compaction_and_adoption_that_a_rollback_lost_are_written_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "data") as server:
        broker = RedisBroker(server.url, timeout=1.0)
        async with Publisher(broker=broker) as publisher:
            async with publisher.run(TOPIC, agent="a") as run:
                await talk(publisher, run, 0, 1, 2)
            async with Redis.from_url(server.url) as client:
                await client.save()
            mine = Context.new(messages=[Message.user(text) for text in "abc"])
            async with publisher.run(TOPIC, agent="b", context=mine, adopt=True) as run:
                await compact(run, 0, 1, "ab")
                with server.away():
                    pass
                await compact(run, 0, 1, "abc")
                there = Context.deserialize((await mirror(broker, TOPIC))["context"])
                assert [message.text for message in there.entries] == ["abc"]
                assert there.log.surface() == run.context.log.surface()
                assert there.log.next_seq == run.context.log.next_seq
                state = await publisher.read(TOPIC)
                assert (state.seq, state.hash) == run._writer.recorder.mark()
        await broker.aclose()


async def test_run_whose_log_is_another_after_a_rollback_is_a_conflict(tmp_path: Path) -> None:
    """The store came back before the run, and somebody else has written there since."""
    with RedisServer(tmp_path / "data") as server:
        broker = RedisBroker(server.url, timeout=1.0)
        async with Publisher(broker=broker) as publisher, Publisher(broker=broker) as other:
            async with Redis.from_url(server.url) as client:
                await client.save()
            run = await publisher.run(TOPIC, agent="a").__aenter__()
            await talk(publisher, run, 0, 1)
            with server.away():
                pass
            async with other.run(TOPIC, agent="b") as second:
                await talk(other, second, 7, 8, 9)
            with pytest.raises(HistoryConflictError):
                await compact(run, 0, 1, "mine")
            with pytest.raises(HistoryConflictError):
                await run.__aexit__(None, None, None)
            assert [message.text for message in (await other.context(TOPIC)).entries] == [
                f"message {number}" for number in (7, 8, 9)
            ]
        await broker.aclose()

"""The Python client against a real gateway and its store."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.client import Client, Subscription
from gateway.context.messages import Message
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.reader import Update
from tests.e2e.processes import Gateway, running_gateway


async def take_until(subscription: Subscription, offset: int) -> list[Update]:
    """Take updates until the topic stands at an offset."""
    updates = []
    async with asyncio.timeout(60):
        async for update in subscription:
            updates.append(update)
            if update.position.offset >= offset:
                break
    return updates


async def talk(gateway: Gateway, topic: str, *, messages: int, length: int) -> int:
    """Publish a run with long messages and give the topic's top."""
    async with Publisher(gateway.redis_url) as publisher, publisher.run(topic, agent="talker") as run:
        for number in range(messages):
            await run.delta(f"{number} ")
            await run.delta("ä" * length)
            await run.add_message(Message.assistant(f"{number} " + "ä" * length))
    return int((await gateway.topic(topic))["offset"])


async def test_large_state_comes_in_parts(shared_gateway: Gateway) -> None:
    top = await talk(shared_gateway, "large", messages=20, length=20_000)
    async with Client(shared_gateway.url) as client:
        subscription = client.subscribe("large")
        (update,) = await take_until(subscription, top)
        assert update.snapshot
        assert update.mirror.snapshot() == await shared_gateway.topic("large")
        await client.publish("large", {"type": "note"})
        (update,) = await take_until(subscription, top + 1)
        assert update.data == {"type": "note"}


async def test_follower_gets_every_event_from_the_start(shared_gateway: Gateway) -> None:
    top = await talk(shared_gateway, "whole", messages=10, length=20_000)
    async with Client(shared_gateway.url) as client:
        updates = await take_until(client.subscribe("whole", since="start", mirror=False), top)
        assert not any(update.snapshot for update in updates)
        assert [update.first for update in updates[1:]] == [update.position.offset + 1 for update in updates[:-1]]
        mirror = Mirror("whole")
        for update in updates:
            mirror.fold(update.data)
        assert mirror.state() == (await shared_gateway.topic("whole"))["mirror"]


async def test_saved_mirror_goes_on_where_it_was(shared_gateway: Gateway) -> None:
    async with Client(shared_gateway.url) as client:
        await client.publish("saved", {"type": "one"})
        (update,) = await take_until(client.subscribe("saved"), 1)
        saved: Any = update.mirror.snapshot()
    async with Client(shared_gateway.url) as client:
        await client.publish("saved", {"type": "two"})
        subscription = client.subscribe("saved", since=Mirror.restore(saved))
        (update,) = await take_until(subscription, 2)
        assert (update.data, update.snapshot) == ({"type": "two"}, False)


async def test_slow_taker_ends_up_with_the_same_state(shared_gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.subscription.MAX_QUEUED", 20_000)
    async with Client(shared_gateway.url) as client:
        subscription = client.subscribe("slow", since="start")
        async with (
            Publisher(shared_gateway.redis_url, flush_interval=0) as publisher,
            publisher.run("slow", agent="talker") as run,
        ):
            for number in range(500):
                await run.delta(f"word {number} ")
        snapshot = await shared_gateway.topic("slow")
        updates = await take_until(subscription, snapshot["offset"])
        assert updates[-1].mirror.snapshot() == snapshot


async def test_sent_message_waits_in_every_mirror(shared_gateway: Gateway) -> None:
    async with Client(shared_gateway.url) as client, Client(shared_gateway.url) as other:
        subscription = other.subscribe("asked")
        first = await client.send("asked", "hello", "my-own")
        assert await client.send("asked", "hello", "my-own") == first
        updates = await take_until(subscription, first["offset"])
        assert [entry["content"] for entry in updates[-1].mirror.state()["queue"]] == ["hello"]
        assert await client.top("asked") == updates[-1].position


@pytest.mark.parametrize("mirror", [True, False])
async def test_lost_history_is_told_and_never_mixed(mirror: bool) -> None:  # noqa: FBT001 - a parameter of the test
    async with running_gateway() as gateway, Client(gateway.url) as client:
        for _ in range(3):
            await client.publish("lost", {"type": "before"})
        subscription = client.subscribe("lost", since="start", mirror=mirror)
        before = (await take_until(subscription, 3))[-1].position
        async with Redis.from_url(gateway.redis_url) as redis:
            await redis.flushall()
        await client.publish("lost", {"type": "after"})
        async with asyncio.timeout(60):
            update = await anext(subscription)
            while update.position.epoch == before.epoch:
                update = await anext(subscription)
        assert update.snapshot
        top = await client.top("lost")
        assert update.position.epoch == top.epoch
        if update.position != top:
            update = (await take_until(subscription, top.offset))[-1]
        assert update.position == top

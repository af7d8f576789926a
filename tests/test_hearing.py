"""What a run hears of people, whatever becomes of the wake-ups and of the topic's history."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.codec import encode_json
from gateway.hearing import Ear
from gateway.patience import Patience
from gateway.publisher import Publisher
from gateway.topic_state import read_topic
from gateway.types import START, Position, Topic
from tests.people import cancel, decide
from tests.publishing import mirror, send, until
from tests.servers import RedisServer

TOPIC = "chat:1"


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


class Heard:
    """An ear without a run, and what it heard."""

    def __init__(self, broker: RedisBroker, *, run: str = "r", position: Position = START) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.ear = Ear(broker, Patience(), topic=Topic(TOPIC), run=run, position=position, heard=self.events.append)

    async def wait(self, count: int) -> list[Any]:
        async def enough() -> bool:
            return len(self.events) >= count

        await until(enough)
        return [(event["type"], event.get("id")) for event in self.events]


async def test_ear_reads_what_came_and_nothing_twice(broker: RedisBroker) -> None:
    heard = Heard(broker)
    heard.ear.start()
    await send(broker, TOPIC, "m1", "one")
    heard.ear.wake()
    assert await heard.wait(1) == [("message_queued", "m1")]
    await send(broker, TOPIC, "m2", "two")
    heard.ear.wake()
    assert await heard.wait(2) == [("message_queued", "m1"), ("message_queued", "m2")]
    await heard.ear.aclose()


async def test_ear_hears_of_its_own_run_only(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        own, other = Heard(broker, run=run.id), Heard(broker, run="somebody")
        await cancel(broker, TOPIC, run.id, mode="after_step")
        await send(broker, TOPIC, "m1", "one")
        for heard in (own, other):
            heard.ear.start()
            heard.ear.wake()
        assert await own.wait(2) == [("cancel_requested", None), ("message_queued", "m1")]
        assert await other.wait(1) == [("message_queued", "m1")]
        for heard in (own, other):
            await heard.ear.aclose()


async def test_told_moves_on_where_people_did_nothing(broker: RedisBroker) -> None:
    heard = Heard(broker, position=Position(epoch="E", offset=5))
    heard.ear.told(Position(epoch="E", offset=9), 4)
    assert heard.ear.position.offset == 9
    heard.ear.told(Position(epoch="E", offset=8), 4)
    assert heard.ear.position.offset == 9
    heard.ear.told(Position(epoch="E", offset=12), 11)
    assert heard.ear.position.offset == 9
    assert heard.ear._news.is_set()


async def test_told_of_another_epoch_looks(broker: RedisBroker) -> None:
    heard = Heard(broker, position=Position(epoch="E", offset=5))
    heard.ear.told(Position(epoch="F", offset=3), 2)
    assert heard.ear._news.is_set()


async def test_ear_behind_the_floor_takes_the_topics_state(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        heard = Heard(broker, run=run.id, position=run.position)
        asking = asyncio.create_task(run.log_event("turn_start"))
        await asking
        await send(broker, TOPIC, "m1", "one")
        await cancel(broker, TOPIC, run.id, mode="after_step")
        state = await read_topic(broker, Topic(TOPIC))
        snapshot = encode_json(state.mirror.snapshot())
        await broker.trim(Topic(TOPIC), snapshot, position=state.position, size=0)
        heard.ear.start()
        heard.ear.wake()
        assert sorted(await heard.wait(2), key=str) == [("cancel_requested", None), ("message_queued", "m1")]
        assert heard.ear.position.offset >= state.position.offset
        await heard.ear.aclose()


async def test_decisions_are_part_of_the_state_that_is_taken(broker: RedisBroker) -> None:
    from gateway.context.messages import ToolCall  # noqa: PLC0415 - used here alone

    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        heard = Heard(broker, run=run.id, position=run.position)
        asking = asyncio.create_task(run.approval(ToolCall(id="c1", name="t", arguments="{}")))

        async def asked() -> bool:
            return bool((await mirror(broker, TOPIC))["approvals"])

        await until(asked)
        await decide(broker, TOPIC, run.id, "c1", "edit", arguments='{"a":1}')
        await asking
        state = await read_topic(broker, Topic(TOPIC))
        snapshot = encode_json(state.mirror.snapshot())
        await broker.trim(Topic(TOPIC), snapshot, position=state.position, size=0)
        heard.ear.start()
        heard.ear.wake()
        await heard.wait(1)
        (told,) = heard.events
        assert (told["type"], told["decision"], told["arguments"], told["by"]) == (
            "approval_decided",
            "edit",
            '{"a":1}',
            "ann",
        )
        await heard.ear.aclose()


async def test_run_is_stopped_by_a_renewal_where_the_wake_up_was_lost(broker: RedisBroker) -> None:
    async with Publisher(broker=broker, lease=0.6) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            await publisher.hearing.aclose()
            await cancel(broker, TOPIC, run.id)
            await asyncio.Event().wait()
        assert run.stop_requested == "stopped by ann"


async def test_run_hears_again_after_its_link_was_lost(broker: RedisBroker, redis: Any) -> None:
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            await run.flush()
            await redis.client_kill_filter(_type="pubsub")
            await cancel(broker, TOPIC, run.id)
            await asyncio.Event().wait()
        assert run.stop_requested == "stopped by ann"


async def test_listener_that_could_not_begin_is_made_up_for_and_tries_again(tmp_path: Path) -> None:
    """Report 57: the link of the very first run is refused; stops arrive all the same, and later ones at once."""
    with RedisServer(tmp_path / "data") as server:
        broker = RedisBroker(server.url)
        async with Redis.from_url(server.url) as admin, Publisher(broker=broker, lease=0.6) as publisher:
            await admin.execute_command("ACL", "SETUSER", "default", "-subscribe", "-ssubscribe")  # type: ignore[no-untyped-call]
            async with publisher.run(TOPIC, agent="a") as run:
                await cancel(broker, TOPIC, run.id)
                await asyncio.Event().wait()
            assert run.stop_requested == "stopped by ann"
            await admin.execute_command("ACL", "SETUSER", "default", "+subscribe", "+ssubscribe")  # type: ignore[no-untyped-call]
            channel = broker.control_channel(Topic(TOPIC))
            publisher.lease = 600.0  # from here on no renewal comes to its help
            async with publisher.run(TOPIC, agent="a") as run:

                async def listens() -> bool:
                    counted = [*await admin.pubsub_numsub(channel), *await admin.pubsub_shardnumsub(channel)]
                    return any(count for _, count in counted)

                await until(listens)
                await cancel(broker, TOPIC, run.id)
                await asyncio.Event().wait()
            assert run.stop_requested == "stopped by ann"
        await broker.aclose()


async def test_one_link_serves_the_runs_of_a_publisher(broker: RedisBroker, redis: Any) -> None:
    async with Publisher(broker=broker) as publisher:
        runs = [publisher.run(f"chat:{number}", agent="a") for number in range(5)]

        async def agent(number: int) -> None:
            async with runs[number]:
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(agent(number)) for number in range(5)]

        async def subscribed() -> bool:
            channels = [broker.control_channel(run.topic) for run in runs]
            return [count for _, count in await redis.pubsub_numsub(*channels)] == [1] * 5

        await until(subscribed)
        for run in runs:
            await cancel(broker, run.topic, run.id)
        await asyncio.gather(*tasks)

        async def forgotten() -> bool:
            channels = [broker.control_channel(run.topic) for run in runs]
            return [count for _, count in await redis.pubsub_numsub(*channels)] == [0] * 5

        await until(forgotten)

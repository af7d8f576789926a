import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from gateway.broker.port import Appended, Trimmed
from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.errors import RunEndedError, TopicBusyError
from gateway.publisher import Publisher
from gateway.types import START, Topic
from tests.publishing import SlowBroker, events, mirror, send, until

TOPIC = "chat:1"


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


async def test_run_that_begins_while_another_writes_begins_behind_it(broker: RedisBroker) -> None:
    slow = SlowBroker(broker)
    slow.hold()
    async with Publisher(broker=slow) as late, Publisher(broker=broker) as publisher:
        entering = asyncio.create_task(late.run(TOPIC, agent="late").__aenter__())
        await until(lambda: asyncio.sleep(0, slow.appends))
        async with publisher.run(TOPIC, agent="early") as early:
            await early.add_message(Message.assistant("first"))
        slow.release()
        run = await entering
        assert [message.text for message in run.context.entries] == ["first"]
        await run.__aexit__(None, None, None)
    state = await mirror(broker, TOPIC)
    assert [(entry["agent"], entry["status"]) for entry in state["runs"]] == [
        ("early", "completed"),
        ("late", "completed"),
    ]


async def test_events_of_others_do_not_disturb_a_start(broker: RedisBroker) -> None:
    slow = SlowBroker(broker)
    slow.hold()
    async with Publisher(broker=slow) as late, Publisher(broker=broker) as publisher:
        entering = asyncio.create_task(late.run(TOPIC, agent="a").__aenter__())
        await until(lambda: asyncio.sleep(0, slow.appends))
        await publisher.publish(TOPIC, {"type": "note"})
        slow.release()
        await (await entering).__aexit__(None, None, None)
    assert len(slow.appends) == 2
    assert [event["type"] for event in await events(broker, TOPIC)][:2] == ["note", "agent_start"]


async def test_take_is_one_append(broker: RedisBroker) -> None:
    slow = SlowBroker(broker)
    await send(broker, TOPIC, "m1", [{"type": "text", "text": "look"}, {"type": "image_url", "url": "https://a/b.png"}])
    async with Publisher(broker=slow) as publisher:
        run = publisher.take(await publisher.read(Topic(TOPIC)), agent="a")
        assert run is not None
        async with run:
            (request,) = slow.appends
            kinds = [entry.type for entry in request.entries if entry.type != "context"]
            assert kinds == ["agent_start", "message_taken", "user_message"]
            assert request.lease is not None
            assert [condition.field for condition in request.conditions] == ["m:m1"]
            assert [(change.field, change.value) for change in request.changes] == [("m:m1", "")]
            parts = run.context.entries[0].content
            assert not isinstance(parts, str | None)
            assert [part.type for part in parts] == ["text", "image_url"]


async def test_busy_topic_is_noted_for_a_later_look(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a"):
        await broker.set_due(Topic(TOPIC), None)
        with pytest.raises(TopicBusyError):
            await publisher.run(TOPIC, agent="b").__aenter__()
        assert await broker.due(until=broker.now() + 60_000) == [TOPIC]


async def test_start_tried_again_long_after_its_run_was_given_up_begins_nothing(broker: RedisBroker) -> None:
    lost = SlowBroker(broker)
    async with Publisher(broker=broker, lease=0.2) as publisher, Publisher(broker=lost) as late:
        lost.hold()
        entering = asyncio.create_task(late.run(TOPIC, agent="a", run_id="r1").__aenter__())
        await until(lambda: asyncio.sleep(0, lost.appends))
        # The first try is stored, and its answer lost; the second one waits.
        begun = msgspec.structs.replace(lost.appends[0], lease=200)
        assert isinstance(await broker.append(Topic(TOPIC), begun, position=START), Appended)
        await until(lambda: _ended(publisher))
        for number in range(2):
            await publisher.publish(TOPIC, {"type": "app.note", "n": number})
            state = await publisher.read(Topic(TOPIC))
            snapshot = msgspec.json.encode(state.mirror.snapshot())
            assert isinstance(
                await broker.trim(Topic(TOPIC), snapshot, position=state.position, size=state.size), Trimmed
            )
        lost.release()
        with pytest.raises(RunEndedError):
            await entering
    assert [entry["status"] for entry in (await mirror(broker, TOPIC))["runs"]] == ["lost"]


async def _ended(publisher: Publisher) -> bool:
    return await publisher.sweeper.look(Topic(TOPIC)) is None

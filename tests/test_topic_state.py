from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.codec import encode_json
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.topic_state import read_topic
from gateway.types import Position, Topic

TOPIC = Topic("chat:1")


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


async def trim(broker: RedisBroker) -> None:
    state = await read_topic(broker, TOPIC)
    size = (await broker.read(TOPIC, Position(), limit=0)).size
    await broker.trim(TOPIC, encode_json(state.mirror.snapshot()), position=state.position, size=size)


async def test_unwritten_topic_is_empty(broker: RedisBroker) -> None:
    state = await read_topic(broker, TOPIC)
    assert (state.position, state.seq, state.hash) == (Position(), 0, "")
    assert list(state.context().entries) == []


async def test_topic_is_read_to_its_top(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        for number in range(1500):
            await run.delta(f"{number} ")
            await run.add_message(Message.assistant(str(number)))
        await run.delta("open")
        position = await run.flush()
        state = await read_topic(broker, TOPIC)
        assert state.position == position
        assert state.seq == run.context.log.next_seq == 1500
        assert state.hash == run._writer.recorder.mark()[1]
        assert state.mirror.state()["open"][0]["text"] == "open"


async def test_read_begins_with_the_snapshot(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("one"))
        await run.delta("ope")
        await run.flush()
        await trim(broker)
        await run.delta("n")
        await run.add_message(Message.user("two"))
        position = await run.flush()
        state = await read_topic(broker, TOPIC)
        assert state.position == position
        assert [message.text for message in state.context().entries] == ["one", "two"]
        assert state.mirror.state()["open"][0]["text"] == "open"
        assert state.seq == state.context().log.next_seq == 2

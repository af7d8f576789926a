from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.context.usage import Usage
from gateway.errors import RunEndedError
from gateway.publisher import Publisher
from gateway.recorder import outgoing
from gateway.run_writer import RunWriter
from tests.publishing import events, send

TOPIC = "chat:1"


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def writer(broker: RedisBroker) -> AsyncIterator[RunWriter]:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a", run_id="r") as run:
        yield run._writer


async def test_event_leaves_out_what_is_none(writer: RunWriter) -> None:
    event = writer.event("log", level="info", logger=None)
    assert (event["type"], event["run"], event["level"]) == ("log", "r", "info")
    assert "logger" not in event


async def test_what_is_put_in_is_stored_in_order(writer: RunWriter, broker: RedisBroker) -> None:
    writer.put_delta("agent_delta", "m", "a")
    writer.put(outgoing(writer.event("log", message="b")))
    writer.put_delta("agent_delta", "m", "")
    writer.put_delta("agent_delta", "m", "c")
    writer.outbox.flush()
    position = await writer.stored()
    assert [event["type"] for event in await events(broker, TOPIC)][-3:] == ["agent_delta", "log", "agent_delta"]
    assert position == writer.sender.position


async def test_usage_of_the_context_moves_by_the_difference(writer: RunWriter) -> None:
    writer.count(Usage(), Usage(input_tokens=5))
    writer.count(Usage(input_tokens=5), Usage(input_tokens=7, output_tokens=1))
    assert writer.context.usage == Usage(input_tokens=7, output_tokens=1)


async def test_people_wait_once_they_have_acted(writer: RunWriter, broker: RedisBroker) -> None:
    assert not writer.people_wait
    await send(broker, TOPIC, "m1", "hello")
    writer.put(outgoing(writer.event("log", message="x")))
    await writer.stored()
    assert writer.people_wait


async def test_nothing_is_taken_after_the_end(writer: RunWriter) -> None:
    position = await writer.end(writer.event("agent_complete"), [])
    assert await writer.end(writer.event("agent_error", error="late"), []) == position
    with pytest.raises(RunEndedError):
        writer.check()
    with pytest.raises(RunEndedError):
        await writer.ready()

"""What a run does with the messages that come meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.people import act
from tests.publishing import events, mirror, send, until

TOPIC = "chat:1"


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


async def queue(broker: RedisBroker) -> list[str]:
    return [waiting["id"] for waiting in (await mirror(broker, TOPIC))["queue"]]


async def texts(broker: RedisBroker) -> list[str]:
    return [event["data"]["content"] for event in (await mirror(broker, TOPIC))["context"]["events"]]


async def test_messages_that_waited_before_are_not_arrivals(broker: RedisBroker) -> None:
    await send(broker, TOPIC, "m1", "one")
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        assert [message.id for message in run.inbox.waiting] == ["m1"]
        await send(broker, TOPIC, "m2", "two")
        await run.inbox.arrival()
        assert [message.id for message in run.inbox.waiting] == ["m1", "m2"]
        assert [message.id for message in run.inbox.arrived] == ["m2"]


async def test_withdrawn_message_is_gone_for_everybody(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        await send(broker, TOPIC, "m1", "one")
        await run.inbox.arrival()
        (message,) = run.inbox.waiting
        await act(broker, "edit", topic=TOPIC, message="m1", content="another")
        assert await run.inbox.withdraw(message, reason="no time")
        assert not await run.inbox.withdraw(message, reason="no time")
        assert (run.inbox.waiting, await queue(broker)) == ((), [])
    (told,) = [event for event in await events(broker, TOPIC) if event["type"] == "message_withdrawn"]
    assert (told["id"], told["reason"], told["run"]) == ("m1", "no time", run.id)


async def test_edited_message_is_taken_as_edited_and_a_withdrawn_one_is_not(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        for number in (1, 2, 3):
            await send(broker, TOPIC, f"m{number}", str(number))

        async def heard() -> bool:
            return len(run.inbox.waiting) == 3

        await until(heard)
        run._ear.wake = lambda: None  # type: ignore[method-assign]  # what follows is not heard in time
        await publisher.hearing.aclose()
        await act(broker, "edit", topic=TOPIC, message="m1", content="one, better")
        await act(broker, "withdraw", topic=TOPIC, message="m2")
        taken = await run.inbox.take()
        assert [message.text for message in taken] == ["one, better", "3"]
        assert [message.text for message in run.context.entries] == ["one, better", "3"]
        await run.add_message(Message.assistant("Fine"))
    assert await texts(broker) == ["one, better", "3", "Fine"]
    assert await queue(broker) == []


async def test_taking_goes_between_whatever_else_the_run_says(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        talking = True

        async def talk() -> None:
            number = 0
            while talking:
                number += 1
                await run.add_message(Message.assistant(f"word {number}"))
                await asyncio.sleep(0)

        speaking = asyncio.create_task(talk())
        for number in range(10):
            await send(broker, TOPIC, f"m{number}", f"question {number}")
            if number % 2:
                await act(broker, "withdraw", topic=TOPIC, message=f"m{number}")

        async def heard() -> bool:
            await run.inbox.take()
            return not run.inbox.waiting and len(await queue(broker)) == 0

        await until(heard)
        talking = False
        await speaking
        await run.flush()
        own = [message.text for message in run.context.entries]
    assert await texts(broker) == own
    assert [text for text in own if text.startswith("question")] == [f"question {number}" for number in (0, 2, 4, 6, 8)]

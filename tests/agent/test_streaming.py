from collections.abc import Awaitable, Callable

import pytest

from gateway.agent.streaming import MAX_ATTEMPTS, respond_streamed
from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.errors import ProviderError
from gateway.publisher import Publisher
from gateway.run import Run
from tests.publishing import events

TOPIC = "chat:1"


def attempts(run: Run, *outcomes: Exception | str | None) -> tuple[Callable[[], Awaitable[None]], list[int]]:
    """Make a stream that writes a little and then, at each attempt, fails, ends the message, or just ends."""
    left, made = list(outcomes), list[int]()

    async def attempt() -> None:
        made.append(len(made) + 1)
        outcome = left.pop(0)
        await run.delta("some text")
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            await run.add_message(Message.assistant(outcome))

    return attempt, made


async def test_broken_off_attempts_are_repeated(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        attempt, made = attempts(run, ConnectionError(), None, "whole")
        message = await respond_streamed(run, attempt, broken_off=(ConnectionError,))
        assert (message.text, made) == ("whole", [1, 2, 3])
        assert [entry.text for entry in run.context.entries] == ["whole"]
    assert [event["type"] for event in await events(broker, TOPIC)].count("message_discarded") == 2


@pytest.mark.parametrize("outcome", [ConnectionError("gone"), ProviderError("cut", code="incomplete_stream"), None])
async def test_last_attempt_fails_as_it_is(publisher: Publisher, outcome: Exception | None) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        attempt, made = attempts(run, *[outcome] * MAX_ATTEMPTS)
        with pytest.raises(type(outcome) if outcome else ProviderError):
            await respond_streamed(run, attempt, broken_off=(ConnectionError,))
    assert len(made) == MAX_ATTEMPTS


@pytest.mark.parametrize("outcome", [ProviderError("no", code="overloaded"), RuntimeError("a bug")])
async def test_other_errors_are_final(publisher: Publisher, outcome: Exception) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        attempt, made = attempts(run, outcome)
        with pytest.raises(type(outcome)):
            await respond_streamed(run, attempt, broken_off=(ConnectionError,))
    assert made == [1]

"""What becomes of a message that comes during a run, by the worker's policy."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import pytest_asyncio

from gateway.agent.loop import answer
from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.policies import POLICIES, Policy
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import Topic
from gateway.worker import Agent, Worker
from tests.publishing import events, mirror, send, until

TOPIC = "chat:1"


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@contextlib.asynccontextmanager
async def working(broker: RedisBroker, agent: Agent, policy: Policy | Callable[[Topic], Policy]) -> AsyncIterator[None]:
    async with Publisher(broker=broker) as publisher:
        worker = Worker(publisher, agent, policy=policy)
        serving = asyncio.create_task(worker.serve())
        try:
            yield
        finally:
            worker.stop()
            await serving


class Gated:
    """An agent that answers each message once the test lets it."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.gate = asyncio.Event()

    async def __call__(self, run: Run, message: Message) -> None:
        self.started.append(message.text)
        await self.gate.wait()
        await run.add_message(Message.assistant(f"You said {message.text}"))

    async def has_started(self, count: int = 1) -> None:
        async def check() -> bool:
            return len(self.started) >= count

        await until(check)


async def queue(broker: RedisBroker) -> list[str]:
    return [waiting["id"] for waiting in (await mirror(broker, TOPIC))["queue"]]


async def statuses(broker: RedisBroker) -> list[str]:
    return [run["status"] for run in (await mirror(broker, TOPIC))["runs"]]


async def finished(broker: RedisBroker, *expected: str) -> None:
    async def check() -> bool:
        return await statuses(broker) == list(expected)

    await until(check)


async def texts(broker: RedisBroker) -> list[str]:
    return [event["data"]["content"] for event in (await mirror(broker, TOPIC))["context"]["events"]]


async def withdrawn(broker: RedisBroker) -> list[tuple[str, str]]:
    found = [event for event in await events(broker, TOPIC) if event["type"] == "message_withdrawn"]
    return [(event["id"], event["reason"]) for event in found]


async def test_unknown_policy_is_refused(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher:
        with pytest.raises(ValueError, match=", ".join(POLICIES)):
            Worker(publisher, Gated(), policy="mixed")  # type: ignore[arg-type]  # that is the point


async def test_queued_message_waits_for_its_turn(broker: RedisBroker) -> None:
    """Report 79: two runs never write into one conversation."""
    agent = Gated()
    async with working(broker, agent, "queue"):
        await send(broker, TOPIC, "m1", "one")
        await agent.has_started()
        await send(broker, TOPIC, "m2", "two")
        assert (await queue(broker), agent.started) == (["m2"], ["one"])
        agent.gate.set()
        await finished(broker, "completed", "completed")
    assert await texts(broker) == ["one", "You said one", "two", "You said two"]


async def test_steering_message_is_given_to_the_running_loop(broker: RedisBroker) -> None:
    at_tool = asyncio.Event()
    runs: list[Run] = []

    async def wait_for_people(_: Any) -> str:
        at_tool.set()

        async def heard() -> bool:
            return bool(runs[0].inbox.waiting)

        await until(heard)
        return "ok"

    class Script:
        name = "script"

        async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
            asked = [message.text for message in run.context.entries if message.role == "user"]
            call = ToolCall(id="c1", name="t", arguments="{}")
            first = Message.assistant(None, tool_calls=(call,))
            await run.add_message(first if asked == ["one"] else Message.assistant(" and ".join(asked)))
            return run.context.entries[-1]

    async def agent(run: Run, _: Message) -> None:
        runs.append(run)
        await answer(run, Script(), [Tool(name="t", function=wait_for_people, takes_context=False)])

    async with working(broker, agent, "steer"):
        await send(broker, TOPIC, "m1", "one")
        await at_tool.wait()
        await send(broker, TOPIC, "m2", "two")
        await finished(broker, "completed")
    assert await texts(broker) == ["one", None, "ok", "two", "one and two"]
    taken = [event for event in await events(broker, TOPIC) if event["type"] == "message_taken"]
    assert [(event["id"], event["by"]) for event in taken] == [("m1", "ann"), ("m2", "ann")]


async def test_interrupting_message_stops_the_run_and_is_answered(broker: RedisBroker) -> None:
    agent = Gated()
    async with working(broker, agent, "interrupt"):
        await send(broker, TOPIC, "m1", "one")
        await agent.has_started()
        await send(broker, TOPIC, "m2", "two")
        await agent.has_started(2)
        agent.gate.set()
        await finished(broker, "cancelled", "completed")
    assert await texts(broker) == ["one", "two", "You said two"]
    assert (await mirror(broker, TOPIC))["runs"][0]["error"] == "interrupted by a message of ann"


async def test_rejected_message_is_withdrawn_with_a_reason(broker: RedisBroker) -> None:
    agent = Gated()
    async with working(broker, agent, "reject"):
        await send(broker, TOPIC, "m1", "one")
        await agent.has_started()
        await send(broker, TOPIC, "m2", "two")

        async def gone() -> list[tuple[str, str]]:
            return await withdrawn(broker)

        ((message, reason),) = await until(gone)
        assert (message, "busy" in reason) == ("m2", True)
        agent.gate.set()
        await finished(broker, "completed")
        await send(broker, TOPIC, "m3", "three")
        await finished(broker, "completed", "completed")
    assert await texts(broker) == ["one", "You said one", "three", "You said three"]


async def test_only_the_latest_message_is_answered(broker: RedisBroker) -> None:
    agent = Gated()
    async with working(broker, agent, "latest"):
        await send(broker, TOPIC, "m1", "one")
        await agent.has_started()
        for number in (2, 3, 4):
            await send(broker, TOPIC, f"m{number}", str(number))

        async def alone() -> bool:
            return await queue(broker) == ["m4"]

        await until(alone)
        agent.gate.set()
        await finished(broker, "completed", "completed")
    assert await texts(broker) == ["one", "You said one", "4", "You said 4"]
    assert [message for message, _ in await withdrawn(broker)] == ["m2", "m3"]


async def test_latest_of_those_that_waited_for_a_worker_is_taken(broker: RedisBroker) -> None:
    agent = Gated()
    agent.gate.set()
    for number in (1, 2, 3):
        await send(broker, TOPIC, f"m{number}", str(number))
    async with working(broker, agent, "latest"):
        await finished(broker, "completed")
    assert await texts(broker) == ["3", "You said 3"]
    assert [message for message, _ in await withdrawn(broker)] == ["m1", "m2"]


@pytest.mark.parametrize("policy", POLICIES)
async def test_readers_are_told_the_policy_of_a_run(broker: RedisBroker, policy: Policy) -> None:
    agent = Gated()
    async with working(broker, agent, policy):
        await send(broker, TOPIC, "m1", "hello")
        await agent.has_started()
        (run,) = (await mirror(broker, TOPIC))["runs"]
        assert run["policy"] == (None if policy == "queue" else policy)
        agent.gate.set()


async def test_policy_may_differ_from_topic_to_topic(broker: RedisBroker) -> None:
    agent = Gated()
    async with working(broker, agent, lambda topic: "interrupt" if topic == TOPIC else "queue"):
        for topic in (TOPIC, "chat:2"):
            await send(broker, topic, "m1", "one")
        await agent.has_started(2)
        for topic in (TOPIC, "chat:2"):
            await send(broker, topic, "m2", "two")
        await agent.has_started(3)
        assert [run["status"] for run in (await mirror(broker, "chat:2"))["runs"]] == ["running"]
        agent.gate.set()
        await finished(broker, "cancelled", "completed")


async def test_unknown_policy_of_a_topic_leaves_its_messages_waiting(
    broker: RedisBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(broker, Gated(), lambda _: "mixed"):  # type: ignore[arg-type, return-value]  # that is the point
        await send(broker, TOPIC, "m1", "one")

        async def said() -> bool:
            return "got 'mixed'" in caplog.text

        await until(said)
    assert await queue(broker) == ["m1"]

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.context.messages import Message
from gateway.errors import RunEndedError
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.run import Run
from tests.e2e.processes import PATIENCE, running_gateway
from tests.publishing import events, mirror

TOPIC = "chat:1"


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def publisher(broker: RedisBroker) -> AsyncIterator[Publisher]:
    async with Publisher(broker=broker) as publisher:
        yield publisher


async def runs(broker: RedisBroker, topic: str = TOPIC) -> list[tuple[str, str, str | None]]:
    return [(run["agent"], run["status"], run["error"]) for run in (await mirror(broker, topic))["runs"]]


async def test_announced_with_all_that_it_begins_with(publisher: Publisher, broker: RedisBroker) -> None:
    async with (
        publisher.run(TOPIC, agent="lead") as lead,
        lead.sub_agent("scout", model="m", input="Look.", max_iterations=3) as scout,
    ):
        assert scout.topic == f"{TOPIC}/{scout.id}"
        assert scout.context.max_iterations == 3
        await lead.flush()
        announced = (await events(broker, TOPIC))[-1]
        own = (await events(broker, scout.topic))[0]
    told = {"type", "run", "agent", "model", "parent", "input", "max_iterations"}
    assert {name: announced[name] for name in told} == {name: own[name] for name in told}
    assert (announced["topic"], announced["parent"]) == (scout.topic, lead.id)


async def test_end_is_told_on_both_topics(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="lead") as lead:
        async with lead.sub_agent("scout") as scout:
            await scout.add_message(Message.assistant("Quiet."))
            await scout.complete({"found": 0})
        await lead.add_message(Message.assistant("It is quiet."))
    _, end = [event for event in await events(broker, TOPIC) if event["run"] == scout.id]
    assert (end["type"], end["result"]) == ("agent_complete", {"found": 0})
    assert await runs(broker) == [("lead", "completed", None), ("scout", "completed", None)]
    assert await runs(broker, scout.topic) == [("scout", "completed", None)]


async def test_failure_of_a_sub_agent_is_not_its_parents(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="lead") as lead:
        with pytest.raises(ValueError, match="no road"):
            async with lead.sub_agent("scout"):
                raise ValueError("no road")
    assert await runs(broker) == [("lead", "completed", None), ("scout", "failed", "no road")]


async def test_stopped_sub_agent_leaves_its_parent_running(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="lead") as lead:
        async with lead.sub_agent("scout") as scout:
            scout.stop("stopped by ann")
            await asyncio.Event().wait()
        assert lead.stop_requested is None
    assert await runs(broker) == [("lead", "completed", None), ("scout", "cancelled", "stopped by ann")]


async def test_stopped_parent_stops_its_sub_agents(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="lead") as lead, lead.sub_agent("scout"):
        lead.stop("stopped by ann")
        await asyncio.Event().wait()
    assert await runs(broker) == [
        ("lead", "cancelled", "stopped by ann"),
        ("scout", "cancelled", "stopped by ann"),
    ]


async def test_many_at_once_and_nested(publisher: Publisher, broker: RedisBroker) -> None:
    async def work(parent: Run, depth: int) -> None:
        async with parent.sub_agent(f"a{depth}") as child:
            await child.delta("working")
            if depth:
                await asyncio.gather(work(child, depth - 1), work(child, depth - 1))

    async with publisher.run(TOPIC, agent="lead") as lead:
        await asyncio.gather(work(lead, 1), work(lead, 1))
    first = await mirror(broker, TOPIC)
    assert [run["status"] for run in first["runs"]] == ["completed"] * 3
    second = await mirror(broker, first["runs"][1]["topic"])
    assert [(run["agent"], run["status"]) for run in second["runs"]] == [("a1", "completed")] + [
        ("a0", "completed")
    ] * 2
    assert all(run["parent"] == first["runs"][1]["run"] for run in second["runs"][1:])


async def test_ended_parent_has_no_sub_agents(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="lead") as lead:
        await lead.complete()
        with pytest.raises(RunEndedError):
            await lead.sub_agent("scout").__aenter__()
    assert await runs(broker) == [("lead", "completed", None)]


async def test_parent_that_ends_before_it_closes_it_as_lost(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="lead") as lead:
        async with lead.sub_agent("scout") as scout:
            await lead.complete()
        assert scout.outcome["type"] == "agent_complete"
    assert await runs(broker) == [("lead", "completed", None), ("scout", "lost", None)]
    assert await runs(broker, scout.topic) == [("scout", "completed", None)]


async def test_topic_without_room_is_refused(publisher: Publisher) -> None:
    async with publisher.run("t" * 190, agent="lead") as lead:
        with pytest.raises(ValueError, match="topic"):
            lead.sub_agent("scout")


async def test_mirrors_and_tail_follow_it() -> None:
    async with running_gateway() as gateway:
        command = [sys.executable, "-m", "gateway", "tail", TOPIC, "--from", "start", "--follow-runs", "--json"]
        tail = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, env={**os.environ, "GATEWAY_URL": gateway.url}
        )
        try:
            async with Client(gateway.url) as client, client.subscribe(TOPIC) as subscription:
                seen = asyncio.create_task(_runs_when_ended(subscription))
                async with Publisher(gateway.redis_url) as publisher, publisher.run(TOPIC, agent="lead") as lead:
                    async with lead.sub_agent("scout") as scout:
                        await scout.add_message(Message.assistant("Quiet."))
                    await lead.add_message(Message.assistant("It is quiet."))
                state = await asyncio.wait_for(seen, PATIENCE)
            lines = await asyncio.wait_for(_lines_to_the_end(tail, scout), PATIENCE)
        finally:
            tail.kill()
            await tail.communicate()
    assert [(run["agent"], run["topic"], run["status"]) for run in state] == [
        ("lead", None, "completed"),
        ("scout", scout.topic, "completed"),
    ]
    told = [(line["topic"], line["data"]["type"]) for line in lines]
    assert (scout.topic, "assistant_message") in told
    assert (TOPIC, "agent_complete") in told


async def _runs_when_ended(subscription: Any) -> list[dict[str, Any]]:
    async for update in subscription:
        mirror: Mirror = update.mirror
        if mirror.runs and all(run["ended_at"] is not None for run in mirror.runs):
            return mirror.runs
    raise AssertionError("expected the runs to end")


async def _lines_to_the_end(tail: asyncio.subprocess.Process, scout: Run) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    assert tail.stdout is not None
    ends = {(TOPIC, scout.id), (scout.topic, scout.id)}
    while ends:
        line = json.loads(await tail.stdout.readline())
        lines.append(line)
        if line["data"]["type"] == "agent_complete":
            ends.discard((line["topic"], line["data"]["run"]))
    return lines

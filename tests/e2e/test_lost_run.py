"""An agent's process is killed: every reader sees it, nothing of its text is lost, the next run goes on from there."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.types import START, Topic
from tests.acting import trim
from tests.e2e.processes import ROOT, Gateway, until
from tests.started import remember

AGENT = """
import asyncio, sys
from gateway.context.messages import Message, ToolCall
from gateway.publisher import Publisher

async def main(url, topic):
    async with Publisher(url, lease=1.0) as publisher, publisher.run(topic, agent="doomed", run_id="r1") as run:
        await run.add_message(Message.user("what is in the file?"))
        call = ToolCall(id="c1", name="cat", arguments="{}")
        await run.add_message(Message.assistant("Let me see.", tool_calls=(call,)))
        await run.tool_call("c1", "cat", "{}")
        await run.thinking("It seems ")
        await run.delta("The file says ")
        await run.tool_call_delta(index=0, id="c2", name="cat", text='{"path": "/et')
        await run.flush()
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest_asyncio.fixture(loop_scope="module")
async def broker(shared_gateway: Gateway) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(shared_gateway.redis_url)
    yield broker
    await broker.aclose()


async def killed(url: str, topic: str) -> None:
    """Run the agent in a process of its own until it has open parts, and kill that."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AGENT, url, topic, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    remember(process.pid)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"open\n"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        await process.communicate()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("trims", [(), ("before", "after"), ("after",)])
async def test_killed_agent_is_seen_and_its_text_kept(
    shared_gateway: Gateway, broker: RedisBroker, trims: tuple[str, ...]
) -> None:
    topic = f"chat:killed-{len(trims)}"

    async def lost() -> dict[str, Any] | None:
        state: dict[str, Any] = (await shared_gateway.topic(topic))["mirror"]
        return state if state["runs"][0]["status"] == "lost" else None

    await killed(shared_gateway.redis_url, topic)
    if "before" in trims:
        await trim(broker, topic)
    # Nobody has subscribed to it, and no worker is there.
    state = await until(lost, "the gateway to declare the run lost")
    (opened,) = state["open"]
    assert (opened["text"], opened["thinking"], opened["interrupted"]) == ("The file says ", "It seems ", True)
    assert opened["tool_calls"][0]["text"] == '{"path": "/et'
    if "after" in trims:
        await trim(broker, topic)
        assert (await broker.read(Topic(topic), START, limit=0)).floor > 0

    async with Publisher(broker=broker) as publisher, publisher.run(topic, agent="next") as run:
        await run.add_message(Message.assistant("I start again."))
    after = (await shared_gateway.topic(topic))["mirror"]
    assert after["open"] == []
    assert [run["status"] for run in after["runs"]] == ["lost", "completed"]
    entries = [entry for entry in after["context"]["events"] if entry["type"] != "tool_call"]
    assert [entry["data"]["content"] for entry in entries][:2] == ["what is in the file?", "Let me see."]
    sealed = next(entry for entry in entries if entry["data"]["content"] == "The file says ")
    assert (sealed["run"], sealed["message"]) == ("r1", opened["message"])
    assert sealed["data"]["metadata"]["interrupted"] is True
    assert sealed["data"]["metadata"]["partial_tool_calls"][0]["arguments"] == '{"path": "/et'
    assert sealed["data"]["tool_calls"] in (None, [])  # nobody runs half a call
    answered = [entry["data"]["tool_call_id"] for entry in entries if entry["type"] == "tool_result"]
    assert answered == ["c1"]
    assert entries[-1]["data"]["content"] == "I start again."

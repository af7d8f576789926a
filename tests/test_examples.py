"""Every example is run as a user runs it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.e2e.processes import PATIENCE, Gateway, running_gateway

EXAMPLES = Path(__file__).parent.parent / "examples"


async def start(name: str, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        EXAMPLES / name,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )


async def output(name: str, *arguments: str, **environment: str) -> str:
    process = await start(name, *arguments, **environment)
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_agent_streams_to_its_topic() -> None:
    async with running_gateway() as gateway:
        await output("agent.py", "chat:example", GATEWAY_REDIS_URL=gateway.redis_url)
        mirror = (await gateway.topic("chat:example"))["mirror"]
    assert "each word is an event" in mirror["context"]["events"][-1]["data"]["content"]
    assert [run["status"] for run in mirror["runs"]] == ["completed"]


async def test_reader_reports_a_failed_run() -> None:
    async with running_gateway() as gateway:
        reader = await start("reader.py", "t", GATEWAY_URL=gateway.url)
        await fail(gateway)
        assert reader.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await reader.stdout.readline()
        reader.kill()
        await reader.communicate()
    assert line.decode().strip() == "t: breaker failed: out of luck"


async def fail(gateway: Gateway) -> None:
    async with Publisher(gateway.redis_url) as publisher:
        try:
            async with publisher.run("t", agent="breaker") as run:
                await run.add_message(Message.user("Try."))
                raise ValueError("out of luck")  # noqa: TRY301 - the run's end is what is wanted
        except ValueError:
            return


async def test_context_alone() -> None:
    assert "saved and restored: True" in await output("context_alone.py")


async def test_context_on_a_topic() -> None:
    async with running_gateway() as gateway:
        out = await output("context_on_topic.py", "chat:example", GATEWAY_REDIS_URL=gateway.redis_url)
    assert "the second run begins with: ['Remember the number 7.', 'I will.']" in out
    assert "the topic now has 4 messages" in out


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("ag_ui_source", "It is sunny in Rome."),
        ("langgraph_agent", "It is sunny in Rome."),
        ("openai_agents_agent", "It is sunny in Rome."),
        ("pydantic_ai_agent", "The weather was looked up."),
    ],
)
async def test_agent_of_a_framework_streams_to_its_topic(name: str, answer: str) -> None:
    async with running_gateway() as gateway:
        await output(f"frameworks/{name}.py", "chat:example", GATEWAY_REDIS_URL=gateway.redis_url)
        mirror = (await gateway.topic("chat:example"))["mirror"]
    assert mirror["context"]["events"][-1]["data"]["content"] == answer
    assert {run["status"] for run in mirror["runs"]} == {"completed"}

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator

from gateway.agent.demo import AGENT_NAME
from gateway.broker.redis import RedisBroker
from tests.publishing import mirror, send, until

TOPIC = "chat:1"


@contextlib.asynccontextmanager
async def demo(redis_url: str, key_prefix: str, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The demo agent in a process of its own, without a key of a provider."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    command = (sys.executable, "-m", "gateway", "agent", "--redis-url", redis_url, "--key-prefix", key_prefix, *options)
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_demo_answers_and_ends_with_a_signal(broker: RedisBroker, redis_url: str, key_prefix: str) -> None:
    async with demo(redis_url, key_prefix) as process:
        await send(broker, TOPIC, "m1", "What is 2 + 3?")

        async def answered() -> bool:
            return [run["status"] for run in (await mirror(broker, TOPIC))["runs"]] == ["completed"]

        await until(answered)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    state = await mirror(broker, TOPIC)
    assert (state["runs"][0]["agent"], state["runs"][0]["model"]) == (AGENT_NAME, "demo")
    assert state["context"]["title"] == "What is 2 + 3?"
    assert "\n5\n" in state["context"]["events"][-1]["data"]["content"]


async def test_demo_ends_with_its_standard_input(redis_url: str, key_prefix: str) -> None:
    async with demo(redis_url, key_prefix, "--until-eof") as process:
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0


async def test_interrupted_demo_leaves_no_running_run(broker: RedisBroker, redis_url: str, key_prefix: str) -> None:
    async with demo(redis_url, key_prefix) as process:
        await send(broker, TOPIC, "m1", "1 + 1 " * 100)

        async def streaming() -> bool:
            return bool((await mirror(broker, TOPIC))["open"])

        await until(streaming)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] in {"completed", "cancelled"}

"""The README's code is run as it stands there."""

import asyncio
import contextlib
import re
import signal
import sys
from pathlib import Path

import pytest

from gateway.client import Client
from gateway.publisher import Publisher
from tests.e2e.processes import GATEWAY, PATIENCE, ROOT, Gateway, running_gateway, until

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = {line.split()[1] for line in README.splitlines() if line.startswith("gateway ")}


def block(word: str) -> str:
    """Give the one block of Python in which a word stands."""
    (found,) = (text for text in BLOCKS if word in text)
    return found


async def start(text: str, gateway: Gateway, *, directory: Path = ROOT) -> asyncio.subprocess.Process:
    text = text.replace("http://127.0.0.1:8000", gateway.url)
    environment = {"GATEWAY_REDIS_URL": gateway.redis_url, "PYTHONUNBUFFERED": "1"}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", text, stdout=asyncio.subprocess.PIPE, env=environment, cwd=directory
    )


async def output(text: str, gateway: Gateway) -> str:
    process = await start(text, gateway)
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


def test_every_block_is_tested_here() -> None:
    assert len(BLOCKS) == 5
    words = ("researcher", "Worker", "import subscribe", "replace_message_range", "bot.run")
    assert len({block(word) for word in words}) == 5


async def test_agent_publishes_and_reader_hears_it() -> None:
    async with running_gateway() as gateway:
        reader = await start(block("import subscribe"), gateway)
        await output(block("researcher"), gateway)
        assert reader.stdout is not None

        async def told() -> bool:
            assert reader.stdout is not None
            return b"researcher completed" in await reader.stdout.readline()

        await until(told, "the reader to tell that the run has completed")
        reader.kill()
        await reader.communicate()


async def fail(gateway: Gateway) -> None:
    with contextlib.suppress(ValueError):
        async with Publisher(gateway.redis_url) as publisher, publisher.run("chat:failing", agent="breaker"):
            raise ValueError("out of luck")


async def test_bot_decides_and_ends_in_good_order(tmp_path: Path) -> None:
    async with running_gateway() as gateway:
        worker = await start(block("Worker"), gateway)
        bot = await start(block("bot.run"), gateway, directory=tmp_path)
        assert bot.stdout is not None

        lines = asyncio.create_task(bot.stdout.readline())

        async def up() -> bool:
            await fail(gateway)
            return lines.done()

        await until(up, "the bot to tell of a failure")
        assert b" agent_error {" in await lines
        async with Client(gateway.url) as client:
            await client.send("chat:42", "Please do.")
            async for update in client.subscribe("chat:42"):
                mirror = update.mirror
                if mirror.runs and mirror.runs[0]["status"] == "completed":
                    break
        bot.send_signal(signal.SIGTERM)
        assert await bot.wait() == 0
        worker.kill()
        await worker.communicate()
        await bot.communicate()
    assert [message["content"] for message in mirror.messages()][2] == "decided: Reject"


async def test_worker_asks_and_answers() -> None:
    async with running_gateway() as gateway:
        worker = await start(block("Worker"), gateway)
        async with Client(gateway.url) as client:
            await client.send("chat:42", "Please do.")
            async for update in client.subscribe("chat:42"):
                mirror = update.mirror
                waiting = [approval for approval in mirror.approvals if approval["decision"] is None]
                if waiting:
                    question = waiting[0]
                    await client.decide("chat:42", question["run"], question["tool_call_id"], "approve")
                if mirror.runs and mirror.runs[0]["status"] == "completed":
                    break
        worker.kill()
        await worker.communicate()
    texts = [message["content"] for message in mirror.messages()]
    assert texts == ["Please do.", "I would deploy that.", "decided: Approve", "You said: Please do."]


async def test_context_block() -> None:
    async with running_gateway() as gateway:
        await output(block("replace_message_range"), gateway)


@pytest.mark.parametrize("command", sorted(COMMANDS))
async def test_command_is_there(command: str) -> None:
    process = await asyncio.create_subprocess_exec(*GATEWAY, command, "--help", stdout=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0

"""`demo`, as a process of its own."""

import asyncio
import signal
import socket
from pathlib import Path

import psutil
import pytest

from gateway.client import Client
from gateway.publisher import Publisher
from tests.e2e.processes import Process, until
from tests.servers import free_port


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


async def answer(url: str, text: str) -> str:
    """Send a message and follow the topic to the end of the run that answers it."""
    async with Client(url) as client, asyncio.timeout(60):
        subscription = client.subscribe("chat:demo", since="start")
        await client.send("chat:demo", text)
        async for update in subscription:
            if update.data.get("type") == "agent_complete":
                messages = update.mirror.messages()
                return str(next(one["content"] for one in reversed(messages) if one["role"] == "assistant"))
    raise AssertionError("the subscription ended before the run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_agent_answers_and_everything_ends_with_the_demo(number: signal.Signals) -> None:
    port = free_port()
    process = await Process.start("demo", "--no-open", "--port", str(port))
    try:
        assert await process.line() == f"Chat: http://127.0.0.1:{port}\n"
        agents = await process.line()
        assert agents.startswith("Agents: GATEWAY_REDIS_URL=redis://")
        async with Publisher(agents.strip().partition("=")[2]) as publisher:
            await publisher.publish("chat:other", {"type": "x"})
        children = psutil.Process(process.pid).children(recursive=True)
        assert await answer(f"http://127.0.0.1:{port}", "What is 6 * 7?")
        process.kill(number)
        code, _, _ = await process.end()
        assert code == {signal.SIGINT: 130, signal.SIGTERM: 0, signal.SIGKILL: -9}[number]

        async def gone() -> bool:
            return not alive(children)

        await until(gone, "all processes to end")
    finally:
        await process.stop()


async def test_taken_port_gives_the_next_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = await Process.start("demo", "--no-open", "--port", str(port))
        try:
            said, chat = await process.line(), await process.line()
            used = int(chat.rpartition(":")[2])
            assert used > port
            assert said == f"Port {port} is taken; this is on {used}.\n"
        finally:
            await process.stop()


async def test_page_is_opened(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened.new && mv {tmp_path}/opened.new {tmp_path}/opened\n')
    browser.chmod(0o755)
    process = await Process.start("demo", "--port", str(free_port()), BROWSER=str(browser))
    try:
        chat = (await process.line()).removeprefix("Chat: ")

        async def opened() -> bool:
            return (tmp_path / "opened").exists()

        await until(opened, "the page to be opened")
        assert (tmp_path / "opened").read_text() == chat
    finally:
        await process.stop()


def agent_of(process: Process) -> psutil.Process:
    (agent,) = [one for one in psutil.Process(process.pid).children() if "agent" in one.cmdline()]
    return agent


async def test_agent_that_dies_is_started_again_and_its_run_shown_as_lost() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    process = await Process.start("demo", "--no-open", "--port", url.rpartition(":")[2], GATEWAY_LEASE="3")
    try:
        await process.line()
        async with Client(url) as client, asyncio.timeout(120):
            subscription = client.subscribe("chat:demo", since="start")
            await client.send("chat:demo", "1 + 1 " * 100)
            killed = False
            async for update in subscription:
                state = update.mirror.state()
                if state["open"] and not killed:
                    killed = True
                    agent_of(process).kill()
                    await client.send("chat:demo", "What is 6 * 7?")
                if [run["status"] for run in state["runs"]] == ["lost", "completed"]:
                    break
        process.kill(signal.SIGINT)
        code, _, err = await process.end()
        assert code == 130
        assert "The demo agent ended (killed by SIGKILL); starting it again." in err
    finally:
        await process.stop()


async def test_agent_that_cannot_start_ends_the_demo_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'agent' in sys.orig_argv:\n    raise SystemExit('no model today')\n"
    )
    process = await Process.start("demo", "--no-open", "--port", str(free_port()), PYTHONPATH=str(tmp_path))
    try:
        code, _, err = await process.end()
        assert code == 1
        expected = "gateway: the demo agent ended 3 times just after its start: SystemExit: no model today"
        assert err.splitlines()[-1] == expected
    finally:
        await process.stop()


async def test_killed_demo_leaves_nothing_behind_in_the_middle_of_a_run() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    process = await Process.start("demo", "--no-open", "--port", url.rpartition(":")[2])
    try:
        await process.line()
        async with Client(url) as client, asyncio.timeout(60):
            subscription = client.subscribe("chat:demo", since="start")
            await client.send("chat:demo", "1 + 1 " * 100)
            async for update in subscription:
                if update.mirror.state()["open"]:
                    break
            children = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            await process.end()

        async def gone() -> bool:
            return not alive(children)

        await until(gone, "all processes to end")
    finally:
        await process.stop()

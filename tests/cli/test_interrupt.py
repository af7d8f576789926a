"""Ctrl-C at any moment, as the terminal sends it: to every process of the group."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from gateway.broker.embedded import EmbeddedServer
from tests.e2e.processes import GATEWAY, PATIENCE, until
from tests.servers import free_port
from tests.started import remember

AT_IMPORT = """
import importlib.abc, os, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r} and {command!r} in sys.orig_argv:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""
"""Sends Ctrl-C when a module begins to be loaded."""


class Command:
    """A command in a process group of its own, as a terminal starts it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, *arguments: str, **environment: str) -> "Command":
        process = await asyncio.create_subprocess_exec(
            *GATEWAY,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
        )
        remember(process.pid)
        return cls(process)

    def interrupt(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)

    async def end(self) -> tuple[int | None, str]:
        """Give exit code and standard error."""
        async with asyncio.timeout(PATIENCE):
            _, err = await self.process.communicate()
        return self.process.returncode, err.decode()

    async def line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self.process.stdout.readline()).decode()


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (["serve", "--port", "0"], "click"),
        (["serve", "--port", "0"], "gateway.cli.root"),
        (["serve", "--port", "0"], "gateway.cli.serve"),
        (["serve", "--port", "0"], "uvicorn.lifespan.on"),
        (["serve", "--port", "0", "--workers", "2"], "uvicorn.supervisors"),
        (["demo", "--port", "0", "--no-open"], "gateway.hub"),
        (["tail", "t"], "gateway.client"),
        (["agent", "--redis-url", "redis://127.0.0.1:1"], "gateway.worker"),
    ],
)
async def test_while_modules_are_loaded(arguments: list[str], module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(AT_IMPORT.format(module=module, command=arguments[0]))
    command = await Command.start(*arguments, PYTHONPATH=str(tmp_path))
    assert await command.end() == (130, "")


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("delay", [0.2, 0.4, 0.8, 1.2])
async def test_serve_while_it_starts(delay: float, workers: str) -> None:
    command = await Command.start("serve", "--port", "0", "--workers", workers)
    await asyncio.sleep(delay)
    command.interrupt()
    assert await command.end() == (130, "")


@pytest.mark.parametrize("arguments", [("serve",), ("serve", "--workers", "2"), ("demo", "--no-open")])
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_serving_once_and_again(arguments: tuple[str, ...], times: int) -> None:
    command = await Command.start(*arguments, "--port", str(free_port()))
    assert await command.line()
    children = psutil.Process(command.process.pid).children(recursive=True)
    for _ in range(times):
        command.interrupt()
        await asyncio.sleep(0.05)
    code, err = await command.end()
    assert code == 130
    assert [line for line in err.splitlines() if not line.startswith("Agent: ")] == []

    async def gone() -> bool:
        return not [one for one in children if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]

    await until(gone, "what it started to end")


@pytest.mark.parametrize("times", [1, 2])
async def test_agent_once_and_again(times: int) -> None:
    async with EmbeddedServer() as server:
        command = await Command.start("agent", "--redis-url", server.url)
        assert command.process.stderr is not None
        assert (await command.process.stderr.readline()).startswith(b"Agent: demo, model demo, on redis://:")
        for _ in range(times):
            command.interrupt()
            await asyncio.sleep(0.05)
        assert await command.end() == (130, "")


async def test_publish_that_reads_standard_input() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "gateway", "publish", "t", "-"),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    remember(process.pid)
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        while b"gateway.client_socket" not in await process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in err

"""The demo's agent, in a process of its own that is started again when it dies."""

import asyncio
import os
import signal
import subprocess
import sys
from typing import NoReturn

import click

from gateway.errors import GatewayError

__all__ = ["AgentEndedError", "keep_agent"]

PATIENCE = 10.0
"""Seconds the agent gets to end its runs."""
STEADY = 10.0
"""Seconds an agent must have lived for its end to be an accident."""
CRASHES = 3
"""Shorter lives in a row that show that another start is of no use."""
PAUSE = 0.5
"""Seconds before the next start; twice as many after the next short life."""


class AgentEndedError(GatewayError):
    """The demo agent's process does not keep up.

    Attributes:
        code: Its exit code; below 0 the signal that killed it.
        said: The last line it wrote to standard error; "" for none.

    """

    def __init__(self, *, code: int, said: str) -> None:
        super().__init__(code, said)
        self.code = code
        self.said = said

    def __str__(self) -> str:
        why = self.said if self.code > 0 and self.said else _ending(self.code)
        return f"the demo agent ended {CRASHES} times just after its start: {why}"


async def keep_agent(redis_url: str, arguments: list[str]) -> NoReturn:
    """Keep a demo agent running until this is cancelled, which ends it in good order.

    Args:
        redis_url: The store.
        arguments: Further ones of ``gateway agent``.

    Raises:
        AgentEndedError: It ended at once several times in a row.

    """
    loop = asyncio.get_running_loop()
    crashes = 0
    while True:
        began = loop.time()
        code, said = await _lived(redis_url, arguments)
        crashes = crashes + 1 if loop.time() - began < STEADY else 0
        if crashes >= CRASHES:
            raise AgentEndedError(code=code, said=said)
        click.echo(f"The demo agent ended ({_ending(code)}); starting it again.", err=True)
        await asyncio.sleep(PAUSE * 2**crashes)


async def _lived(redis_url: str, arguments: list[str]) -> tuple[int, str]:
    """Run it once; gives its exit code and its last word."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gateway",
        "agent",
        "--until-eof",  # so that it ends with this process however that ends
        *arguments,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "GATEWAY_REDIS_URL": redis_url},
        start_new_session=True,  # Ctrl-C is the gateway's, which ends the agent after the readers
    )
    assert process.stdin is not None  # noqa: S101  # for the type checker: they were asked for
    assert process.stderr is not None  # noqa: S101
    hearing = asyncio.create_task(_pass_on(process.stderr))
    try:
        code = await process.wait()
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), PATIENCE)
        except TimeoutError:
            process.kill()
            await process.wait()
        said = await hearing
    return code, said


async def _pass_on(source: asyncio.StreamReader) -> str:
    """Write what it says to our own standard error; gives the last line."""
    last = ""
    while line := await source.readline():
        text = line.decode(errors="replace").rstrip()
        last = text.strip() or last
        click.echo(text, err=True)
    return last


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

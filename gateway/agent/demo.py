"""The demo agent: a worker whose answers come from rules, or from a real model where one is named."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator

from gateway.agent.demo_model import DemoModel
from gateway.agent.loop import answer
from gateway.agent.model import Model
from gateway.agent.tools import TOOLS
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.worker import Worker

__all__ = ["AGENT_NAME", "main", "work"]

AGENT_NAME = "demo"

_DEFAULT_MODEL = "gpt-4.1-mini"
"""Where OpenAI's key is set and no model is named."""


def main(
    *,
    redis_url: str = "",
    key_prefix: str = "gw",
    model: str | None = None,
    base_url: str | None = None,
    concurrency: int = 8,
    until_eof: bool = False,
) -> None:
    """Answer the messages of all topics until SIGINT or SIGTERM; runs in progress are given a moment to finish.

    Args:
        redis_url: Where the topics are kept; "" is `Publisher`'s default.
        key_prefix: Of all keys and channels; the gateways' own.
        model: A model of OpenAI's API; None is its default where a key or a base URL is given, else the rules.
        base_url: Where that API is; None is ``OPENAI_BASE_URL``, or OpenAI's own.
        concurrency: Runs at once.
        until_eof: End with the standard input too: whoever holds its other end is gone then.

    """
    asyncio.run(
        _until_told(
            redis_url,
            key_prefix=key_prefix,
            model=model,
            base_url=base_url,
            concurrency=concurrency,
            until_eof=until_eof,
        )
    )


async def work(
    redis_url: str = "",
    *,
    stop: asyncio.Event,
    key_prefix: str = "gw",
    model: str | None = None,
    base_url: str | None = None,
    concurrency: int = 8,
) -> None:
    """Answer the messages of all topics until told to stop.

    Args:
        redis_url: As of `main`, like the rest.
        stop: Set it, and this returns once the runs have ended.
        key_prefix: As of `main`.
        model: As of `main`.
        base_url: As of `main`.
        concurrency: As of `main`.

    """
    async with _opened_model(model, base_url) as opened, Publisher(redis_url, key_prefix=key_prefix) as publisher:

        async def agent(run: Run, message: Message) -> None:
            if run.title is None:
                await run.set_context(title=_title(message))
            await answer(run, opened, TOOLS)

        worker = Worker(publisher, agent, concurrency=concurrency, name=AGENT_NAME, model=opened.name)
        serving = asyncio.create_task(worker.serve())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            worker.stop()
            await serving
        finally:
            stopping.cancel()
            serving.cancel()
            await asyncio.wait([serving, stopping])


async def _until_told(
    redis_url: str,
    *,
    key_prefix: str,
    model: str | None,
    base_url: str | None,
    concurrency: int,
    until_eof: bool,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    watching = asyncio.create_task(_stop_at_eof(stop)) if until_eof else None
    try:
        await work(redis_url, stop=stop, key_prefix=key_prefix, model=model, base_url=base_url, concurrency=concurrency)
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])


async def _stop_at_eof(stop: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while await reader.read(1024):
            pass
    finally:
        transport.close()
    stop.set()


@contextlib.asynccontextmanager
async def _opened_model(name: str | None, base_url: str | None) -> AsyncIterator[Model]:
    """Open the model that is asked for; the SDK is needed only for a real one."""
    if not (name or base_url or os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        yield DemoModel()
        return
    from gateway.agent.openai_model import OpenAIModel  # noqa: PLC0415 - an optional dependency

    # Servers of one's own mostly want no key, and the SDK wants one.
    api_key = None if os.environ.get("OPENAI_API_KEY") else "none"
    model = OpenAIModel(name or _DEFAULT_MODEL, base_url=base_url, api_key=api_key)
    try:
        yield model
    finally:
        await model.aclose()


def _title(message: Message) -> str:
    """Name a topic after its first message."""
    line = next((line.strip() for line in message.text.splitlines() if line.strip()), "")
    return line if len(line) <= 60 else line[:59] + "…"

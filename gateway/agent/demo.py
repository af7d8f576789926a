"""The demo agent: a worker whose answers come from rules, or from a real model where one is named."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from gateway.agent.demo_model import DemoModel
from gateway.agent.loop import answer
from gateway.agent.model import Model
from gateway.agent.tools import TOOLS
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.worker import Worker

__all__ = ["AGENT_NAME", "opened_model", "work"]

AGENT_NAME = "demo"

_DEFAULT_MODEL = "gpt-4.1-mini"
"""Where OpenAI's key is set and no model is named."""


async def work(publisher: Publisher, model: Model, *, stop: asyncio.Event, concurrency: int = 8) -> None:
    """Answer the messages of all topics until told to stop.

    Args:
        publisher: Opens the runs.
        model: Answers; see `opened_model`.
        stop: Set it, and this returns once the runs have ended; they are given a moment to finish.
        concurrency: Runs at once.

    """

    async def agent(run: Run, message: Message) -> None:
        if run.title is None:
            await run.set_context(title=_title(message))
        await answer(run, model, TOOLS)

    worker = Worker(publisher, agent, concurrency=concurrency, name=AGENT_NAME, model=model.name)
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


@contextlib.asynccontextmanager
async def opened_model(name: str | None = None, base_url: str | None = None) -> AsyncIterator[Model]:
    """Open the model that is asked for; the SDK is needed only for a real one.

    Args:
        name: A model of OpenAI's API; None is its default where a key or a base URL is given, else the rules.
        base_url: Where that API is; None is ``OPENAI_BASE_URL``, or OpenAI's own.

    Raises:
        ImportError: A real one is asked for and the SDK is not installed.

    """
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

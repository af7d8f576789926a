"""A worker process for the tests that kill it: its one tool counts its runs in a file and then never ends."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.agent.loop import answer
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.worker import Worker

__all__ = ["Script"]


class Script:
    """A model that writes a little, and where it has the tool calls it once, then tells what came of it."""

    name = "script"

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        await run.delta("Let me see")
        await run.flush()
        last = run.context.entries[-1]
        if not tools:
            print("writing", flush=True)  # noqa: T201 - the test waits for it
            await asyncio.Event().wait()
        if last.role == "tool":
            await run.add_message(Message.assistant(f"It said {last.text}"))
        else:
            call = ToolCall(id="c1", name="count", arguments="{}")
            await run.add_message(Message.assistant("Let me see", tool_calls=(call,)))
        return run.context.entries[-1]


async def main(url: str, prefix: str, stage: str, counted: str) -> None:
    async def count(_: Mapping[str, Any]) -> None:
        with Path(counted).open("a") as file:
            file.write("x")
        print("counted", flush=True)  # noqa: T201 - the test waits for it
        await asyncio.Event().wait()

    tool = Tool(name="count", function=count, takes_context=False, timeout=None, requires_approval=stage == "approval")

    async def agent(run: Run, _: Message) -> None:
        await answer(run, Script(), [] if stage == "answer" else [tool])

    async with Publisher(url, key_prefix=prefix, lease=1.0) as publisher:
        await Worker(publisher, agent).serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

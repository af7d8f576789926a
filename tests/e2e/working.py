"""A worker in a process of its own, whose runs come into the state that the message names, and stay there.

The first word of a message is the state: `streaming` and `silent` are at a provider over HTTP, `tool` is inside a tool,
`approval` at the question whether that tool may run; anything else is answered at once.
"""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gateway.agent.loop import answer
from gateway.agent.openai_model import OpenAIModel
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.worker import Worker

__all__ = ["STATES", "Model", "reached"]

STATES = ("streaming", "silent", "tool", "approval")


class Model:
    """Brings a run into its state."""

    name = "staged"

    def __init__(self, provider: str) -> None:
        self._provided = {
            state: OpenAIModel(state, base_url=provider, api_key="none") for state in ("streaming", "silent")
        }

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        asked = next(message.text for message in reversed(run.context.entries) if message.role == "user")
        state = asked.partition(" ")[0]
        if state in self._provided:
            return await self._provided[state].respond(run, [])
        await run.delta("Let me see")
        if state in {tool.name for tool in tools}:
            call = ToolCall(id=f"call_{run.id}", name=state, arguments="{}")
            await run.add_message(Message.assistant("Let me see", tool_calls=(call,)))
        else:
            await run.add_message(Message.assistant(f"You said {asked}"))
        return run.context.entries[-1]


async def count(effects: Path, message: str, _: Mapping[str, Any]) -> None:
    """Have an effect, and never come to an end."""
    with (effects / message.replace(" ", "-")).open("a") as file:
        file.write("x")
    await asyncio.Event().wait()


async def work(redis_url: str, provider: str, effects: Path, *, name: str, lease: float) -> None:
    model = Model(provider)

    async def agent(run: Run, message: Message) -> None:
        function = partial(count, effects, message.text)
        tools = [
            Tool(name="tool", function=function, takes_context=False, timeout=None),
            Tool(name="approval", function=function, takes_context=False, timeout=None, requires_approval=True),
        ]
        await answer(run, model, tools)

    async with Publisher(redis_url, lease=lease) as publisher:
        await Worker(publisher, agent, name=name, concurrency=64).serve()


def reached(mirror: Mapping[str, Any]) -> bool:
    """Tell whether the last run of a topic is in the state that its message names."""
    if not mirror["runs"] or mirror["runs"][-1]["status"] != "running":
        return False
    run = mirror["runs"][-1]["run"]
    own = [event for event in mirror["context"]["events"] if event["run"] == run]
    asked = next((event["data"]["content"] for event in own if event["type"] == "user_message"), "")
    match asked.partition(" ")[0]:
        case "streaming":
            return any(opened["run"] == run for opened in mirror["open"])
        case "silent":
            return any(event["type"] == "request_header" for event in own)
        case "tool":
            return any(event["type"] == "tool_call" for event in own)
        case _:
            return any(approval["run"] == run for approval in mirror["approvals"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("redis_url")
    parser.add_argument("provider")
    parser.add_argument("effects", type=Path)
    parser.add_argument("--name", default="worker")
    parser.add_argument("--lease", type=float, default=30.0)
    options = parser.parse_args()
    asyncio.run(work(options.redis_url, options.provider, options.effects, name=options.name, lease=options.lease))


if __name__ == "__main__":
    main()

"""A model that follows a script, and what goes with it."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.run import Run
from tests.publishing import events

__all__ = ["TOPIC", "Script", "calls", "results", "tool"]

TOPIC = "chat:1"


class Script:
    """A model that says what it was told to, message by message."""

    name = "script"

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)
        self.offered: list[list[str]] = []

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        self.offered.append([tool.name for tool in tools])
        message = self._messages.pop(0)
        if message.text:
            await run.delta(message.text)
        await run.add_message(message)
        return run.context.entries[-1]


def calls(*wanted: tuple[str, str, Any]) -> Message:
    made = tuple(ToolCall(id=call_id, name=name, arguments=arguments) for call_id, name, arguments in wanted)
    return Message.assistant(None, tool_calls=made)


def tool(function: Any, **fields: Any) -> Tool:
    return Tool(name="t", function=function, takes_context=False, retries=0, **fields)


async def results(broker: RedisBroker) -> list[Mapping[str, Any]]:
    return [event for event in await events(broker, TOPIC) if event["type"] == "tool_result"]

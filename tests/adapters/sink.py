"""A run's adapter-facing side that records, with the rules of the real one: a message ends its deltas."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gateway.codec import encode_event
from gateway.context.approval import Decision
from gateway.context.errors import ExecutionCancelled
from gateway.context.messages import Message, ToolCall
from gateway.context.usage import Usage
from gateway.event_types import check_publishable


class RecordingSink:
    """Keeps what an adapter says.

    Attributes:
        messages: Each finished assistant message, with the text, thinking and arguments that were streamed for it.
        results: Tool results, as (call id, name, content, error).
        ran: Calls announced as running, as (id, name, arguments, server).
        usages: The last counters of each model call.
        discarded: Reasons.
        emitted: What was kept as events of the agent's own.
        logged: Bookkeeping events, as (type, data).
        agents: The names that the agent was given on the way.
        ends: What each of them ended by; None where it completed.
        asked: Calls that people were asked about.
        decisions: What they will decide, in order.
        stopped: Why the run shall stop after its step; "" while it shall not.
        children: Of each sub-agent the name and what it said.

    """

    def __init__(self) -> None:
        self.messages: list[tuple[Message, str, str, list[str]]] = []
        self.results: list[tuple[str, str, str, bool]] = []
        self.ran: list[tuple[str, str, str, bool]] = []
        self.usages: dict[str, Usage] = {}
        self.discarded: list[str] = []
        self.emitted: list[dict[str, Any]] = []
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.agents: list[str] = []
        self.ends: list[BaseException | None] = []
        self.asked: list[ToolCall] = []
        self.decisions: list[Decision] = []
        self.stopped = ""
        self.children: list[tuple[str, RecordingSink]] = []
        self.order: list[str] = []
        self._reset()

    def _reset(self) -> None:
        self.open_text, self.open_thinking = "", ""
        self.open_calls: dict[int, str] = {}

    async def delta(self, text: str, *, message: str | None = None) -> None:
        assert text, "an empty delta is not published"
        self.open_text += text

    async def thinking(self, text: str, *, message: str | None = None) -> None:
        assert text, "an empty delta is not published"
        self.open_thinking += text

    async def tool_call_delta(
        self,
        *,
        index: int,
        text: str = "",
        id: str | None = None,
        name: str | None = None,
        message: str | None = None,
    ) -> None:
        assert text or id or name, "an empty delta is not published"
        assert index <= len(self.open_calls), "calls are numbered in order"
        self.open_calls[index] = self.open_calls.get(index, "") + text

    async def add_message(self, message: Message, *, message_id: str | None = None) -> None:
        self.order.append("message")
        self.messages.append((message, self.open_text, self.open_thinking, list(self.open_calls.values())))
        self._reset()

    async def tool_call(self, id: str, name: str, arguments: str, *, server: bool = False) -> None:
        self.order.append("call")
        self.ran.append((id, name, arguments, server))

    async def tool_result(self, tool_call_id: str, name: str, content: str, *, error: bool = False) -> None:
        self.order.append("result")
        self.results.append((tool_call_id, name, content, error))

    async def usage(self, usage: Usage, *, call: str | None = None) -> None:
        assert call is not None
        self.usages[call] = usage

    async def discard(self, *, reason: str, call: str | None = None) -> None:
        self.discarded.append(reason)
        self.usages.pop(call or "", None)
        self._reset()

    async def emit(self, event: Mapping[str, Any]) -> None:
        check_publishable(event)
        encode_event(event)
        self.emitted.append(dict(event))

    async def log_event(self, type: str, data: Mapping[str, Any] | None = None) -> None:
        self.logged.append((type, dict(data or {})))

    async def set_context(self, *, agent_name: str) -> None:
        self.agents.append(agent_name)

    @asynccontextmanager
    async def sub_agent(self, agent: str) -> AsyncIterator["RecordingSink"]:
        child = RecordingSink()
        self.children.append((agent, child))
        try:
            yield child
        except BaseException as error:
            self.ends.append(error)
            raise
        self.ends.append(None)

    def check(self) -> None:
        if self.stopped:
            raise ExecutionCancelled(self.stopped)

    async def approval(self, tool_call: ToolCall) -> Decision:
        self.asked.append(tool_call)
        return self.decisions.pop(0)

    def last(self) -> dict[str, Any]:
        """Give the last message as a plain map."""
        return self.messages[-1][0].to_dict()

"""The events of the OpenAI Agents SDK (``Runner.run_streamed``) into a run, its approvals asked on the topic."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from gateway.adapters.openai_responses import Responses
from gateway.adapters.response import Adapter, Asking, Sink, compact
from gateway.context.approval import Approve, Edit
from gateway.context.messages import ToolCall

__all__ = ["OpenAIAgents", "is_streamed_run", "streamed_run"]


class OpenAIAgents(Adapter):
    """Feeds ``StreamEvent`` objects into a run: each model's response, the tools, the handoffs.

    A tool that needs an approval is told as a call together with its result: the SDK does not say when it starts.
    """

    kept_as = "openai_agents"

    def __init__(self, run: Sink) -> None:
        super().__init__(run)
        self._responses = _Responses(run)
        self._waiting: dict[str, Any] = {}
        """Calls that have not begun: their response is not whole, or they need an approval."""
        self._running: dict[str, str] = {}
        """Of each call that runs the tool's name."""

    @property
    def resting(self) -> bool:
        """Whether nothing is half done."""
        return self._responses.resting and not self._waiting and not self._running

    async def feed(self, event: Any) -> None:
        """Take the next event.

        Raises:
            ProviderError: The provider reports an error.

        """
        self.begun = True
        match event.type:
            case "raw_response_event":
                await self._responses.feed(event.data)
                self.last = self._responses.last
                await self._begin_waiting()
            case "agent_updated_stream_event":
                await self._sink.set_context(agent_name=event.new_agent.name)
            case "run_item_stream_event":
                await self._take(event.item)
            case kind:
                await self._keep(str(kind), {"event": event})

    async def finish(self) -> None:
        """Take the end of the stream.

        Raises:
            ProviderError: A response has begun and not ended.

        """
        await self._responses.finish()

    async def _take(self, item: Any) -> None:
        raw = item.raw_item
        match item.type:
            case "tool_call_item" | "handoff_call_item" if _of(raw, "type") in _OWN:
                self._waiting[_of(raw, "call_id")] = item
                await self._begin_waiting()
            case "tool_call_output_item" | "handoff_output_item" if _of(raw, "call_id"):
                await self._result(item, str(_of(raw, "call_id")))

    async def _begin_waiting(self) -> None:
        if not self._responses.resting:
            return
        for call_id, item in list(self._waiting.items()):
            if not _needs_approval(item):
                await self._start(call_id)

    async def _start(self, call_id: str) -> None:
        item = self._waiting.pop(call_id)
        name = str(_of(item.raw_item, "name") or _of(item.raw_item, "type"))
        self._running[call_id] = name
        arguments = _of(item.raw_item, "arguments")
        given = arguments if isinstance(arguments, str) else compact({"input": _of(item.raw_item, "input")})
        await self._sink.tool_call(call_id, name, given or "{}")

    async def _result(self, item: Any, call_id: str) -> None:
        if call_id in self._waiting:
            await self._start(call_id)
        output = getattr(item, "output", None)
        if output is None:
            output = _of(item.raw_item, "output")
        text = output if isinstance(output, str) else compact(_plain(output))
        await self._sink.tool_result(call_id, self._running.pop(call_id, ""), text)


class _Responses(Responses):
    """As the SDK relays them; a response may have no created event where another provider's model answers."""

    @property
    def resting(self) -> bool:
        return self._response is None


_OWN = frozenset({"custom_tool_call", "function_call"})
"""Calls that the SDK runs here; others are the provider's, and stand in its response."""


def is_streamed_run(stream: object) -> bool:
    """Tell whether something is what ``Runner.run_streamed`` gives."""
    return type(stream).__module__.partition(".")[0] == "agents" and hasattr(stream, "stream_events")


async def streamed_run(run: Asking, result: Any) -> AsyncIterator[Any]:
    """Give the events of a streamed run, and go on with it where people have decided what it asks.

    Closed early, it cancels the streamed run. The SDK has no way to approve other arguments: a call that is edited is
    rejected, and the model told what the arguments should be.

    Args:
        run: Who asks.
        result: What ``Runner.run_streamed`` gave.

    """
    # It is there: the result is one of its objects.
    from agents import Runner  # noqa: PLC0415

    while True:
        events = result.stream_events()
        try:
            async for event in events:
                yield event
        finally:
            if not result.is_complete:
                result.cancel()
                # So the SDK wants it: only at the end of its events is everything closed.
                async for _ in events:
                    pass
        if not result.interruptions:
            return
        items = list(result.interruptions)
        decisions = await asyncio.gather(*(run.approval(_asked(item)) for item in items))
        state = result.to_state()
        for item, decision in zip(items, decisions, strict=True):
            match decision:
                case Approve():
                    state.approve(item)
                case Edit(arguments=arguments):
                    wanted = f"Not approved as it is. Call it with these arguments: {compact(arguments)}"
                    state.reject(item, rejection_message=wanted)
                case rejected:
                    reason = f", {rejected.reason}" if rejected.reason else ""
                    state.reject(item, rejection_message=f"The call did not run: it was not approved{reason}.")
        result = Runner.run_streamed(result.last_agent, state)


def _asked(item: Any) -> ToolCall:
    raw = item.raw_item
    arguments = _of(raw, "arguments")
    given = arguments if isinstance(arguments, str) and arguments else "{}"
    return ToolCall(id=str(_of(raw, "call_id") or _of(raw, "id")), name=str(item.tool_name), arguments=given)


def _needs_approval(item: Any) -> bool:
    name = _of(item.raw_item, "name")
    tools = getattr(item.agent, "tools", None) or ()
    return any(tool.name == name and getattr(tool, "needs_approval", False) for tool in tools)


def _of(raw: Any, name: str) -> Any:
    """Read a field of an item, which the SDK gives as a model or as a map."""
    return raw.get(name) if isinstance(raw, dict) else getattr(raw, name, None)


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value

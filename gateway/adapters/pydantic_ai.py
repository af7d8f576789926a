"""The events of a pydantic-ai agent (``agent.run_stream_events``) into a run."""

from typing import Any

from gateway.adapters.response import Adapter, Call, compact
from gateway.context.usage import Usage
from gateway.types import new_id

__all__ = ["PydanticAI"]

_RESULTS = frozenset({"function_tool_result", "output_tool_result"})
_CALLS = frozenset({"function_tool_call", "output_tool_call"})
_FRAMES = frozenset({"final_result"})


class PydanticAI(Adapter):
    """Feeds ``AgentStreamEvent`` and ``AgentRunResultEvent`` objects into a run.

    A call that waits for an approval is told as a call before that, as the framework tells it. What each model call has
    cost comes with the run's result, at the end.
    """

    kept_as = "pydantic_ai"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._parts: dict[int, Call] = {}
        self._asked: list[tuple[str, int]] = []
        """Of each model call its id, and how many tools it called."""
        self._running: set[str] = set()

    @property
    def resting(self) -> bool:
        """Whether nothing is half done."""
        return super().resting and not self._running

    async def feed(self, event: Any) -> None:
        """Take the next event."""
        kind = str(getattr(event, "event_kind", ""))
        match kind:
            case "part_start":
                await self._start(event.index, event.part)
            case "part_delta":
                await self._grow(event.index, event.delta)
            case "part_end":
                await self._close(event)
            case _ if kind in _CALLS:
                await self._end()
                self._running.add(event.part.tool_call_id)
                await self._sink.tool_call(
                    event.part.tool_call_id, event.part.tool_name, _text(event.part.args) or "{}"
                )
            case _ if kind in _RESULTS:
                await self._result(event.part)
            case "agent_run_result":
                await self._count(event.result)
            case _ if kind not in _FRAMES:
                await self._keep(kind or "event", {"event": event})

    async def finish(self) -> None:
        """Take the end of the stream."""
        await self._end()
        await super().finish()

    async def _start(self, index: int, part: Any) -> None:
        response = self._response
        if response is None:
            self._parts.clear()
            response = await self._begin(call=new_id(), model="")
        match part.part_kind:
            case "text":
                await response.text(part.content)
            case "thinking":
                await response.thinking(part.content or "")
            case "tool-call" | "builtin-tool-call":
                opened = Call(
                    id=part.tool_call_id,
                    name=part.tool_name,
                    pieces=[_text(part.args)] if part.args else [],
                    server=part.part_kind == "builtin-tool-call",
                )
                self._parts[index] = await response.open_call(opened)
            case "builtin-tool-return":
                failed = getattr(part, "outcome", "success") != "success"
                await self._answer(part.tool_call_id, _shown(part), error=failed)
            case kind:
                # Their bytes have no place in an event.
                response.metadata.setdefault("items", []).append({"part_kind": kind})

    async def _grow(self, index: int, delta: Any) -> None:
        response = self._response
        if response is None:
            return
        match delta.part_delta_kind:
            case "text":
                await response.text(delta.content_delta)
            case "thinking":
                await response.thinking(delta.content_delta or "")
            case "tool_call" if index in self._parts and isinstance(delta.args_delta, str):
                await response.grow_call(self._parts[index], delta.args_delta)

    async def _close(self, event: Any) -> None:
        response, part = self._response, event.part
        if response is None:
            return
        call = self._parts.get(event.index)
        if call is not None:
            response.settle_call(call, _text(part.args))
        elif part.part_kind == "thinking":
            known = {name: getattr(part, name, None) for name in ("id", "signature", "provider_name")}
            told = {name: value for name, value in known.items() if value}
            response.reasoning.append({"type": "thinking", "thinking": part.content, **told})
        if event.next_part_kind is None:
            await self._end()

    async def _end(self) -> None:
        if self._response is not None:
            self._asked.append((self._response.call, len(self._response.calls)))
        await super()._end()

    async def _result(self, part: Any) -> None:
        await self._end()
        self._running.discard(part.tool_call_id)
        # What the model is told to do again is a part of another kind.
        failed = part.part_kind == "retry-prompt" or getattr(part, "outcome", "success") != "success"
        await self._sink.tool_result(part.tool_call_id, part.tool_name or "", _shown(part), error=failed)

    async def _count(self, result: Any) -> None:
        await self._end()
        answers = [message for message in result.new_messages() if message.kind == "response"]
        if len(answers) != len(self._asked):
            await self._sink.usage(_usage(result.usage, tool_calls=0), call=new_id())
            return
        for (call, tools), answer in zip(self._asked, answers, strict=True):
            await self._sink.usage(_usage(answer.usage, tool_calls=tools), call=call)


def _text(arguments: Any) -> str:
    if not arguments:
        return ""
    return arguments if isinstance(arguments, str) else compact(arguments)


def _shown(part: Any) -> str:
    return str(part.model_response() if part.part_kind == "retry-prompt" else part.model_response_str())


def _usage(counted: Any, *, tool_calls: int) -> Usage:
    sent, written = counted.input_tokens, counted.output_tokens
    return Usage(
        requests=getattr(counted, "requests", 1),
        tool_calls=tool_calls,
        input_tokens=sent,
        output_tokens=written,
        total_tokens=sent + written,
        cache_creation_input_tokens=counted.cache_write_tokens,
        cache_read_input_tokens=counted.cache_read_tokens,
    )

"""The tool calls of one message: checked, asked about, run side by side where they may, answered."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from gateway.codec import encode_json
from gateway.context.errors import ExecutionCancelled, ToolError
from gateway.context.hooks import Deny, Modify, run_hooks
from gateway.context.messages import Message, ToolCall
from gateway.context.schema import check_arguments
from gateway.context.tools import Tool, ToolResult, approved_arguments, execute_tool
from gateway.run import Run

__all__ = ["MAX_PARALLEL_TOOLS", "MAX_RESULT_CHARACTERS", "ToolCalls"]

MAX_PARALLEL_TOOLS = 8
"""Tool calls of one message that run at once."""

MAX_RESULT_CHARACTERS = 16 * 1024
"""Code points of a tool's result that the model and the readers get: even if each is escaped, one event holds them."""


_CUT_OFF = frozenset(
    {"content_filter", "length", "max_output_tokens", "max_tokens", "model_context_window_exceeded", "refusal"}
)
"""Finish reasons, as the providers write them, of messages that broke off: their last call may be half of one."""


class ToolCalls:
    """Runs what a model calls, in one run.

    Args:
        run: The run.
        tools: What may be called.

    """

    def __init__(self, run: Run, tools: Sequence[Tool]) -> None:
        self._run = run
        self._tools = {tool.name: tool for tool in tools}
        self._slots = asyncio.Semaphore(MAX_PARALLEL_TOOLS)

    async def run_all(self, message: Message, calls: Sequence[ToolCall]) -> None:
        """Run calls and log what they answer; in order, but neighbours that may run in parallel do.

        Args:
            message: The message that asks for them.
            calls: Those of its calls that are to be run.

        Raises:
            ExecutionCancelled: A tool or an approval stopped the run.

        """
        cut = _cut_off(message)
        for call in calls:
            if call is cut:
                await self._refuse_cut(call, message.metadata["finish_reason"])
        for parallel, group in groupby((call for call in calls if call is not cut), self._is_parallel):
            if parallel:
                await self._run_together(list(group))
            else:
                for call in group:
                    await self._run_one(call)

    async def _run_together(self, calls: Sequence[ToolCall]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(self._run_one(call))
        except BaseExceptionGroup as errors:
            # What stops one call stops the run, and the run's own error is what callers look for.
            stopped = [error for error in errors.exceptions if isinstance(error, ExecutionCancelled)]
            raise (stopped or errors.exceptions)[0] from errors

    async def _run_one(self, call: ToolCall) -> None:
        run, call_id, name = self._run, call.id or "", call.name or ""
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools)
            await run.tool_result(call_id, name, f"There is no tool {name!r}; there are: {known}.", error=True)
            return
        try:
            result = await self._result(tool, call)
        except ToolError as error:
            await self._watch(tool, call_id, {"error": str(error)})
            await run.tool_result(call_id, name, _fitting(_told(tool, error)), error=True)
            return
        await self._watch(tool, call_id, {"result": result.value})
        if result.update is not None:
            await run.change_context(result.update.apply)
        await run.tool_result(call_id, name, _fitting(Message.tool(call_id, result.value).text))

    async def _refuse_cut(self, call: ToolCall, reason: str) -> None:
        told = f"The call did not run: the message broke off ({reason}), and the call may be half of what was meant."
        await self._run.tool_result(call.id or "", call.name or "", told, error=True)

    async def _result(self, tool: Tool, call: ToolCall) -> ToolResult:
        run, given = self._run, _parsed(tool, call.arguments)
        wanted = await self._hooked(tool, call, given)
        asking = run.context.to_run_context(approval_gated=False)
        arguments = await approved_arguments(tool, wanted, asking, call_id=call.id)
        text = call.arguments if arguments is given else encode_json(arguments).decode()
        async with self._slots:
            await run.tool_call(call.id or "", tool.name, text)
            return await execute_tool(tool, arguments, run.context.to_run_context(), call_id=call.id)

    async def _hooked(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Let hooks stop the call or change its arguments."""
        facts = {"tool_name": tool.name, "tool_call_id": call.id, "arguments": arguments}
        match await run_hooks(self._run.context.hook_registry, "pre_tool_use", facts):
            case Deny(reason=reason):
                raise ToolError("failed", tool_name=tool.name, original=reason or "a hook does not allow it")
            case Modify(changes={"arguments": changed}):
                return _checked(tool, changed)
        return arguments

    async def _watch(self, tool: Tool, call_id: str, outcome: Mapping[str, Any]) -> None:
        facts = {"tool_name": tool.name, "tool_call_id": call_id, **outcome}
        await run_hooks(self._run.context.hook_registry, "post_tool_use", facts)

    def _is_parallel(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name or "")
        return tool is None or tool.parallel


def _cut_off(message: Message) -> ToolCall | None:
    """Give the call in whose middle a message may have broken off; that its arguments parse proves nothing."""
    own = [call for call in message.tool_calls or () if not call.extra.get("server")]
    return own[-1] if own and message.metadata.get("finish_reason") in _CUT_OFF else None


def _parsed(tool: Tool, text: Any) -> dict[str, Any]:
    """Read a call's arguments; what does not parse or fit never runs."""
    try:
        arguments = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError, TypeError, UnicodeEncodeError) as error:
        raise ToolError("invalid_arguments", tool_name=tool.name, original=error) from error
    return _checked(tool, arguments)


def _checked(tool: Tool, arguments: Any) -> dict[str, Any]:
    try:
        check_arguments(tool.parameters, arguments)
    except ValueError as error:
        raise ToolError("invalid_arguments", tool_name=tool.name, original=error) from error
    return dict(arguments)


def _told(tool: Tool, error: ToolError) -> str:
    """Write for the model why there is no result, and what would have been right."""
    if error.code == "approval_rejected":
        return "The call did not run: it was not approved" + (f", {error.original}." if error.original else ".")
    if error.code != "invalid_arguments":
        return str(error)
    schema = encode_json(tool.parameters).decode()
    return f"The call did not run, its arguments are invalid: {error.original}. The schema is {schema}"


def _fitting(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARACTERS:
        return text
    left_out = len(text) - MAX_RESULT_CHARACTERS
    return f"{text[:MAX_RESULT_CHARACTERS]}\n[{left_out} more characters were left out]"

"""The loop that drives a model with tools: request, run what it calls, and again, until it answers."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.agent.model import Model
from gateway.codec import encode_json
from gateway.context.errors import ExecutionCancelled, MaxIterationsExceeded, ToolError
from gateway.context.messages import Message, ToolCall
from gateway.context.schema import check_arguments
from gateway.context.tools import Tool, check_cancellation, execute_tool
from gateway.run import Run

__all__ = ["MAX_PARALLEL_TOOLS", "MAX_RESULT_CHARACTERS", "answer"]

_logger = logging.getLogger(__name__)

MAX_PARALLEL_TOOLS = 8
"""Tool calls of one message that run at once."""

MAX_RESULT_CHARACTERS = 16 * 1024
"""Code points of a tool's result that the model and the readers get: even if each is escaped, one event holds them."""


async def answer(run: Run, model: Model, tools: Sequence[Tool] = ()) -> Message | None:
    """Answer what the run's context asks, in one turn of as many steps as it takes.

    A tool starts once its `tool_call` is stored, so none does in a run that was replaced. A call whose arguments do not
    parse or fit the tool's schema does not run: the model is told what was wrong with it.

    Args:
        run: The run.
        model: Who answers.
        tools: What it may call.

    Returns:
        The answer; None where the context's cancellation check stopped the run, which has ended then.

    Raises:
        MaxIterationsExceeded: The model still wants something after the context's ``max_iterations`` requests.

    """
    turn = sum(message.role == "user" for message in run.context.entries)
    known = {tool.name: tool for tool in tools}
    await run.log_event("turn_start", {"turn": turn})
    step = 0
    while True:
        try:
            check_cancellation(run.context)
        except ExecutionCancelled as error:
            await run.cancel(error.reason)
            return None
        if run.context.max_iterations_reached():
            await run.log_event("turn_end", {"turn": turn, "steps": step, "reason": "max_iterations"})
            raise MaxIterationsExceeded(run.context.max_iterations)
        step += 1
        await run.log_event("step_start", {"turn": turn, "step": step})
        await run.set_context(iteration=run.context.iteration + 1)
        message = await model.respond(run, tools)
        calls = [call for call in message.tool_calls or () if not call.extra.get("server")]
        if calls:
            await _run_all(run, known, calls)
        outcome = "tool_calls" if calls else "answer"
        await run.log_event("step_end", {"turn": turn, "step": step, "outcome": outcome})
        if not calls:
            await run.log_event("turn_end", {"turn": turn, "steps": step, "reason": "complete"})
            return message


async def _run_all(run: Run, tools: Mapping[str, Tool], calls: Sequence[ToolCall]) -> None:
    slots = asyncio.Semaphore(MAX_PARALLEL_TOOLS)
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(_run_one(run, tools, call, slots))
    except BaseExceptionGroup as errors:
        # What stops one call stops the run, and the run's own error is what callers look for.
        raise errors.exceptions[0] from errors


async def _run_one(run: Run, tools: Mapping[str, Tool], call: ToolCall, slots: asyncio.Semaphore) -> None:
    call_id, name = call.id or "", call.name or ""
    tool = tools.get(name)
    if tool is None:
        await run.tool_result(call_id, name, f"There is no tool {name!r}; there are: {', '.join(tools)}.", error=True)
        return
    arguments, fault = _parsed(tool, call.arguments)
    if arguments is None:
        schema = encode_json(tool.parameters).decode()
        text = f"The call did not run, its arguments are invalid: {fault}. The schema is {schema}"
        await run.tool_result(call_id, name, _fitting(text), error=True)
        return
    async with slots:
        await run.tool_call(call_id, name, call.arguments)
        try:
            result = await execute_tool(tool, arguments, run.context.to_run_context(), call_id=call_id)
        except ToolError as error:
            await run.tool_result(call_id, name, _fitting(str(error)), error=True)
            return
    if result.update is not None:
        await run.change_context(result.update.apply)
    await run.tool_result(call_id, name, _fitting(Message.tool(call_id, result.value).text))


def _parsed(tool: Tool, text: Any) -> tuple[dict[str, Any] | None, str]:
    """Read a call's arguments; None and what is wrong with them where the tool must not run."""
    try:
        arguments = msgspec.json.decode(text or "{}")
        check_arguments(tool.parameters, arguments)
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        return None, str(error)
    return arguments, ""


def _fitting(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARACTERS:
        return text
    left_out = len(text) - MAX_RESULT_CHARACTERS
    return f"{text[:MAX_RESULT_CHARACTERS]}\n[{left_out} more characters were left out]"

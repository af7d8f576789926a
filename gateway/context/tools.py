"""Running one tool call: validate, ask, run, try again."""

import asyncio
import copy
import inspect
import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.context.approval import ApprovalRequest, Approve, Edit, Reject, parse_decision
from gateway.context.context import Context
from gateway.context.errors import ExecutionCancelled, ToolError, ToolTimeout
from gateway.context.jsonlike import brief
from gateway.context.redaction import redacted, secrets_of
from gateway.context.run_context import RunContext
from gateway.context.schema import check_arguments
from gateway.context.update import ContextUpdate

__all__ = [
    "ContextUpdate",
    "Tool",
    "ToolFailure",
    "ToolResult",
    "approved_arguments",
    "check_cancellation",
    "execute_tool",
]

_logger = logging.getLogger(__package__)


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a model may call.

    Attributes:
        name: Its name.
        function: Called with (context, arguments), or with (arguments) alone; it may be a coroutine function. A plain
            one runs in a thread.
        description: What it is for, for the model.
        parameters: JSON schema of the arguments; empty takes any.
        takes_context: Whether the function wants the context.
        retries: How often it is run again after an exception.
        timeout: Seconds that one run may take; None is no bound.
        requires_approval: Whether someone must agree first.
        parallel: Whether it may run beside other calls of the same message.

    """

    name: str
    function: Callable[..., Any]
    description: str = ""
    parameters: dict[str, Any] = {}
    takes_context: bool = True
    retries: int = 1
    timeout: float | None = 30.0
    requires_approval: bool = False
    parallel: bool = True


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave.

    Attributes:
        value: The result.
        update: What it wants changed in the conversation; None for nothing.

    """

    value: Any = None
    update: ContextUpdate | None = None


class ToolFailure(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool returns when trying again would not help.

    Attributes:
        reason: Why it failed.

    """

    reason: Any


async def execute_tool(
    tool: Tool, arguments: Mapping[str, Any], run_context: RunContext, *, call_id: str | None = None
) -> ToolResult:
    """Run a tool call, after the approval that it may require.

    An exception is tried again; a returned `ToolFailure`, a timeout and a refusal are final. The arguments are
    checked before anyone is asked, and again when they were edited.

    Args:
        tool: The tool.
        arguments: As the model gave them, parsed.
        run_context: What the tool sees; its ``retry`` becomes the number of attempts so far.
        call_id: The provider's id of the call, for the approval handler; None outside a run.

    Raises:
        ToolError: There is no result.
        ToolTimeout: It took longer than the tool's timeout.
        ExecutionCancelled: The tool was stopped from within.

    """
    _check(tool, arguments)
    arguments = await approved_arguments(tool, arguments, run_context, call_id=call_id)
    attempt = 0
    while True:
        attempt += 1
        try:
            async with asyncio.timeout(tool.timeout) as limit:
                result = await _run(tool, arguments, msgspec.structs.replace(run_context, retry=attempt - 1))
            break
        except ExecutionCancelled:
            raise
        except Exception as error:
            if limit.expired():
                raise ToolTimeout(tool_name=tool.name, attempt=attempt, timeout=tool.timeout or 0.0) from error
            if attempt > tool.retries:
                raise ToolError("failed", tool_name=tool.name, attempt=attempt, original=error) from error
            _logger.info(
                "tool %s failed at attempt %d and is tried again: %s",
                tool.name,
                attempt,
                _told(str(error), run_context),
            )
    if isinstance(result, ToolFailure):
        raise ToolError("returned_error", tool_name=tool.name, attempt=attempt, original=result.reason)
    return result if isinstance(result, ToolResult) else ToolResult(value=result)


async def approved_arguments(
    tool: Tool, arguments: Mapping[str, Any], run: RunContext, *, call_id: str | None = None
) -> Mapping[str, Any]:
    """Ask whether a call may run, where it must be asked; returns the arguments to run it with.

    Everything but a plain yes or valid other arguments is a no.

    Args:
        tool: The tool.
        arguments: As the model gave them, valid.
        run: Whose approval handler is asked, unless that has happened.
        call_id: As of `execute_tool`.

    Raises:
        ToolError: It may not run.
        ExecutionCancelled: The handler stopped the run.

    """
    if not tool.requires_approval or run.approval_gated:
        return arguments
    if run.approval_handler is None:
        _logger.warning("tool %s requires approval and nobody can be asked; it does not run", tool.name)
        raise ToolError("approval_required", tool_name=tool.name)
    try:
        # A copy: a yes is to what was shown, whatever the handler does to it.
        shown = copy.deepcopy(arguments)
        answer = run.approval_handler(ApprovalRequest(name=tool.name, id=call_id, arguments=shown, tool=tool))
        if inspect.isawaitable(answer):
            answer = await answer
    except ExecutionCancelled:
        raise
    except Exception as error:
        trace = _told("".join(traceback.format_exception(error)), run)
        _logger.warning("tool %s does not run: the approval handler failed\n%s", tool.name, trace)
        raise ToolError("approval_rejected", tool_name=tool.name, original=error) from error
    match parse_decision(answer):
        case Approve():
            return arguments
        case Edit(arguments=edited):
            _check(tool, edited)
            return edited
        case Reject(reason=reason):
            raise ToolError("approval_rejected", tool_name=tool.name, original=reason)
        case _:
            told = _told(brief(answer), run)
            _logger.warning("tool %s does not run: the answer %s is not understood", tool.name, told)
            raise ToolError("approval_rejected", tool_name=tool.name)


def check_cancellation(ctx: Context) -> None:
    """Ask the context's ``cancellation_check`` whether the run shall stop.

    The check lets the run go on with None, True or ``"ok"``; a text, an exception or False stops it. What it raises
    passes through.

    Raises:
        ExecutionCancelled: It shall.

    """
    if ctx.cancellation_check is None:
        return
    answer = ctx.cancellation_check()
    if answer is None or answer is True or answer == "ok":
        return
    if isinstance(answer, ExecutionCancelled):
        raise answer
    raise ExecutionCancelled("cancelled" if answer is False else str(answer))


def _check(tool: Tool, arguments: object) -> None:
    try:
        check_arguments(tool.parameters, arguments)
    except ValueError as error:
        raise ToolError("invalid_arguments", tool_name=tool.name, original=error) from error


def _told(text: str, run: RunContext) -> str:
    """Make a text fit for a log line."""
    return str(redacted(text, secrets_of(run.deps)))


async def _run(tool: Tool, arguments: Mapping[str, Any], run: RunContext) -> Any:
    given = (run, arguments) if tool.takes_context else (arguments,)
    if inspect.iscoroutinefunction(tool.function):
        return await tool.function(*given)
    # A plain function may block; in a thread it holds up nothing but its own call.
    result = await asyncio.to_thread(tool.function, *given)
    return await result if inspect.isawaitable(result) else result

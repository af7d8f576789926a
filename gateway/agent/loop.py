"""The loop that drives a model with tools: request, run what it calls, and again, until it answers."""

from collections.abc import Sequence

from gateway.agent.model import Model
from gateway.agent.tool_calls import ToolCalls
from gateway.context.errors import ExecutionCancelled, MaxIterationsExceeded
from gateway.context.hooks import Deny, Modify, run_hooks
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.run import Run

__all__ = ["answer"]

_INTERRUPTED = "The call was interrupted: it has started, and nobody knows how far it got."


async def answer(run: Run, model: Model, tools: Sequence[Tool] = ()) -> Message | None:
    """Answer what the run's context asks, in one turn of as many steps as it takes.

    A tool starts once its `tool_call` is stored, so none does in a run that was replaced. A call whose arguments do not
    parse or fit the tool's schema does not run: the model is told what was wrong with it. A tool that requires approval
    runs after the context's approval handler agreed; a run's own handler asks people on the topic.

    Where the worker's policy is ``steer``, messages that people send meanwhile are taken in before each step.

    Args:
        run: The run.
        model: Who answers.
        tools: What it may call.

    Returns:
        The answer; None where the run was stopped between two steps: it has ended then.

    Raises:
        MaxIterationsExceeded: The model still wants something after the context's ``max_iterations`` requests.

    """
    return await _Turn(run, model, tools).take()


class _Turn:
    """One answer to the user."""

    def __init__(self, run: Run, model: Model, tools: Sequence[Tool]) -> None:
        self._run = run
        self._model = model
        self._tools = tools
        self._calls = ToolCalls(run, tools)
        self._number = sum(message.role == "user" for message in run.context.entries)
        self._step = 0

    async def take(self) -> Message | None:
        run = self._run
        await self._hook("session_start")
        asked, calls = await self._unfinished()
        await run.log_event("turn_start", {"turn": self._number})
        try:
            run.check()
            if asked is not None:
                await self._calls.run_all(asked, calls)
            while await self._wanted():
                await self._take_step()
        except ExecutionCancelled as error:
            await self._hook("session_end", reason="cancelled")
            await run.cancel(error.reason)
            return None
        except MaxIterationsExceeded:
            await self._end("max_iterations")
            raise
        await self._end("complete")
        return next((message for message in reversed(run.context.entries) if message.role == "assistant"), None)

    async def _wanted(self) -> bool:
        """Tell whether it is the model's turn."""
        run = self._run
        run.check()
        if run.inbox.steers:
            await run.inbox.take()
        if not run.context.needs_response:
            return False
        if run.context.max_iterations_reached():
            raise MaxIterationsExceeded(run.context.max_iterations)
        return True

    async def _take_step(self) -> None:
        run = self._run
        self._step += 1
        place = {"turn": self._number, "step": self._step}
        await run.log_event("step_start", place)
        await run.set_context(iteration=run.context.iteration + 1)
        tools = await self._offered()
        names = [tool.name for tool in tools]
        await run.log_event("request_header", {**place, "model": self._model.name, "tools": names})
        message = await self._model.respond(run, tools)
        calls = [call for call in message.tool_calls or () if not call.extra.get("server")]
        await self._hook("post_response", text=message.text, tools=[call.name for call in calls])
        if calls:
            await self._calls.run_all(message, calls)
        elif message.tool_calls:
            # The provider has run them itself: nothing is left to be answered.
            await run.set_context(needs_response=False)
        await run.log_event("step_end", {**place, "outcome": "tool_calls" if calls else "answer"})

    async def _offered(self) -> Sequence[Tool]:
        """Ask the hooks before a request; they may stop it, or leave tools out."""
        names = [tool.name for tool in self._tools]
        facts = {"model": self._model.name, "turn": self._number, "step": self._step, "tools": names}
        match await run_hooks(self._run.context.hook_registry, "pre_request", facts):
            case Deny(reason=reason):
                raise ExecutionCancelled(reason or "a hook does not allow the request")
            case Modify(changes={"tools": list() as kept}):
                return [tool for tool in self._tools if tool.name in kept]
        return self._tools

    async def _unfinished(self) -> tuple[Message | None, list[ToolCall]]:
        """Give the calls that a resumed run has still to make; those that have started are never made again."""
        run = self._run
        made = {call.id if isinstance(call, ToolCall) else call.get("id") for call in run.context.tool_calls}
        asked, calls = _unanswered(run.context.entries)
        for call in calls:
            if call.id in made:
                await run.tool_result(call.id or "", call.name, _INTERRUPTED, error=True)
        return asked, [call for call in calls if call.id not in made]

    async def _end(self, reason: str) -> None:
        await self._run.log_event("turn_end", {"turn": self._number, "steps": self._step, "reason": reason})
        await self._hook("session_end", reason=reason)

    async def _hook(self, event: str, **facts: object) -> None:
        common = {"run": self._run.id, "turn": self._number, "step": self._step}
        await run_hooks(self._run.context.hook_registry, event, {**common, **facts})


def _unanswered(entries: Sequence[Message]) -> tuple[Message | None, list[ToolCall]]:
    """Find the calls of the last answer that have no result, and the message that asks for them."""
    answered = {message.tool_call_id for message in entries if message.role == "tool"}
    for message in reversed(entries):
        if message.role == "assistant":
            calls = [call for call in message.tool_calls or () if not call.extra.get("server")]
            return message, [call for call in calls if call.id not in answered]
        if message.role == "user":
            break
    return None, []

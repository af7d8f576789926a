"""Asking people on the topic about the tools of a pydantic-ai agent that need an approval."""

import asyncio

from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied

from gateway.adapters.response import Asking
from gateway.context.approval import Approve, Edit
from gateway.context.messages import ToolCall

__all__ = ["approvals"]


def approvals(run: Asking) -> HandleDeferredToolCalls[object]:
    """Give the capability by which people decide: ``agent.run_stream_events(…, capabilities=[approvals(run)])``.

    Args:
        run: On whose topic they are asked; an edit's arguments replace those of the model.

    """

    async def decide(call: ToolCallPart) -> ToolApproved | ToolDenied:
        asked = ToolCall(id=call.tool_call_id, name=call.tool_name, arguments=call.args_as_json_str())
        match await run.approval(asked):
            case Approve():
                return ToolApproved()
            case Edit(arguments=arguments):
                return ToolApproved(override_args=dict(arguments))
            case rejected:
                return ToolDenied(rejected.reason or "The call was not approved.")

    async def handle(_context: RunContext[object], requests: DeferredToolRequests) -> DeferredToolResults:
        decisions = await asyncio.gather(*(decide(call) for call in requests.approvals))
        ids = (call.tool_call_id for call in requests.approvals)
        return DeferredToolResults(approvals=dict(zip(ids, decisions, strict=True)))

    return HandleDeferredToolCalls(handler=handle)

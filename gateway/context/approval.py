"""The question whether a tool call may go on, and its answer."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from gateway.context.pubsub import Notification, PubSub, agent_topic, approval_topic, default_pubsub, publish

__all__ = [
    "ApprovalHandler",
    "ApprovalRequest",
    "Approve",
    "Decision",
    "Edit",
    "Reject",
    "decision_to_raw",
    "parse_decision",
    "pubsub_handler",
    "respond",
]

_logger = logging.getLogger(__package__)


class Approve(msgspec.Struct, frozen=True, tag="approve"):
    """The call may go on as asked."""


class Reject(msgspec.Struct, frozen=True, kw_only=True, tag="reject"):
    """The call may not go on.

    Attributes:
        reason: Why, for the model; None where none is given.

    """

    reason: str | None = None


class Edit(msgspec.Struct, frozen=True, kw_only=True, tag="edit"):
    """The call may go on with other arguments.

    Attributes:
        arguments: All of them; nothing of the asked ones stays.

    """

    arguments: dict[str, Any]


Decision = Approve | Reject | Edit


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked.

    Attributes:
        name: The tool.
        id: The provider's id of the call; None outside a run.
        arguments: What it would be called with.
        tool: The tool itself.

    """

    name: str
    id: str | None = None
    arguments: Any = None
    tool: Any = None


ApprovalHandler = Callable[[ApprovalRequest], object]
"""Answers a request with a `Decision`, or with what `parse_decision` understands; it may be a coroutine function."""


def parse_decision(raw: object) -> Decision | None:
    """Read a decision: one itself, ``"approve"``, ``"reject"``, ``{"reject": "why"}``, ``{"edit": {…}}``; else None."""
    match raw:
        case Approve() | Reject():
            return raw
        case Edit(arguments=arguments) if isinstance(arguments, Mapping):
            return Edit(arguments=dict(arguments))
        case "approve":
            return Approve()
        case "reject":
            return Reject()
        case Mapping() if len(raw) == 1 and isinstance(raw.get("edit"), Mapping):
            return Edit(arguments=dict(raw["edit"]))
        case Mapping() if len(raw) == 1 and isinstance(raw.get("reject"), str):
            return Reject(reason=raw["reject"])
        case _:
            return None


def decision_to_raw(decision: Decision) -> str | dict[str, Any]:
    """Give the JSON form that `parse_decision` reads."""
    if isinstance(decision, Edit):
        return {"edit": decision.arguments}
    if isinstance(decision, Reject) and decision.reason is not None:
        return {"reject": decision.reason}
    return "approve" if isinstance(decision, Approve) else "reject"


def pubsub_handler(
    *, session_id: str, pubsub: PubSub | None = None, timeout: float = 300.0
) -> Callable[[ApprovalRequest], Awaitable[Decision]]:
    """Make an approval handler that asks on a session's agent topic and takes the answer from its approval topic.

    Args:
        session_id: Whose session it is.
        pubsub: What carries both; None is the default of `configure`, and without one every call is rejected at once,
            because nobody could answer.
        timeout: Seconds to wait for the answer; then the call is rejected.

    """

    async def handler(request: ApprovalRequest) -> Decision:
        carrier = default_pubsub() if pubsub is None else pubsub
        if carrier is None:
            _logger.warning("%s is rejected: there is no pub/sub over which anybody could approve it", request.name)
            return Reject()
        call_id = request.id if request.id is not None else secrets.token_hex(8)
        payload = {
            "tool_call_id": call_id,
            "name": request.name,
            "arguments": request.arguments,
            "session_id": session_id,
        }
        try:
            async with asyncio.timeout(timeout), carrier.subscribe(approval_topic(session_id)) as answers:
                # Only now: an answer that came before the subscription would be lost.
                asked = Notification(type="approval_required", payload=payload)
                if not await publish(carrier, agent_topic(session_id), asked):
                    return Reject()
                async for answer in answers:
                    decision = _answer_to(call_id, answer)
                    if decision is not None:
                        return decision
        except TimeoutError:
            _logger.info("%s is rejected: no answer within %g s", request.name, timeout)
        return Reject()

    return handler


def _answer_to(call_id: str, answer: Notification) -> Decision | None:
    payload = answer.payload
    if answer.type != "approval_response" or not isinstance(payload, Mapping) or payload.get("tool_call_id") != call_id:
        return None
    decision = parse_decision(payload.get("decision"))
    if decision is None:
        _logger.warning("answer to call %s is not understood and taken as no", call_id)
        return Reject()
    return decision


async def respond(pubsub: PubSub | None, session_id: str, tool_call_id: str, decision: Decision) -> None:
    """Answer a request of `pubsub_handler`.

    Args:
        pubsub: What carries it; None does nothing.
        session_id: Whose session it is.
        tool_call_id: The call, as the request named it.
        decision: The answer.

    """
    payload = {"tool_call_id": tool_call_id, "decision": decision_to_raw(decision)}
    await publish(pubsub, approval_topic(session_id), Notification(type="approval_response", payload=payload))

"""Telling others what a run does: callback, sink and topic, each apart from the others' failures."""

import inspect
import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from gateway.context.context import Context
from gateway.context.pubsub import Notification, publish
from gateway.context.redaction import redacted, secrets_of

__all__ = [
    "EVENTS",
    "Notification",
    "emit",
    "emit_many",
    "has_callback",
    "has_notification",
    "notification_for",
    "put_callback",
    "remove_callback",
    "set_notify",
]

EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "on_agent_start": "agent_start",
        "on_llm_new_delta": "agent_delta",
        "on_llm_new_thinking_delta": "agent_thinking",
        "on_llm_new_message": "agent_message",
        "on_tool_call": "tool_call",
        "on_tool_response": "tool_result",
        "on_agent_complete": "agent_complete",
        "on_error": "agent_error",
    }
)
"""Callback event → notification type; any other event is its own type."""

_DELTAS = frozenset({"on_llm_new_delta", "on_llm_new_thinking_delta"})

_logger = logging.getLogger(__package__)


def notification_for(event: str, payload: Any) -> Notification:
    """Give the notification of a callback event."""
    return Notification(type=EVENTS.get(event, event), payload=payload)


async def emit(ctx: Context, event: str, payload: Any) -> None:
    """Call the event's callback, then the sink, then publish; what fails is logged and the rest goes on.

    Args:
        ctx: Who is told. Callback and sink may be coroutine functions; they are awaited.
        event: One of `EVENTS`, or any other name.
        payload: Its facts. In what is published the secrets among the deps are redacted, but not in deltas.

    """
    notification = notification_for(event, payload)
    callback = ctx.callbacks.get(event)
    if callback is not None:
        await _call(ctx, f"callback {event}", callback, event, payload)
    if ctx.notify is not None:
        await _call(ctx, f"sink of {notification.type}", ctx.notify, notification)
    if ctx.pubsub is not None and ctx.pubsub_topic is not None:
        # A delta is a piece of a secret at most, and they are too many to look through the deps for each.
        told = payload if event in _DELTAS else redacted(payload, secrets_of(ctx.deps))
        await publish(ctx.pubsub, ctx.pubsub_topic, msgspec.structs.replace(notification, payload=told))


async def emit_many(ctx: Context, pairs: Iterable[tuple[str, Any]]) -> None:
    """Emit (event, payload) pairs in order."""
    for event, payload in pairs:
        await emit(ctx, event, payload)


def has_callback(ctx: Context, event: str) -> bool:
    """Tell whether an event has a callback."""
    return event in ctx.callbacks


def put_callback(ctx: Context, event: str, fn: Callable[[str, Any], Any]) -> Context:
    """Set an event's callback.

    Raises:
        TypeError: It cannot be called with an event and a payload.

    """
    if not callable(fn):
        raise TypeError(f"expected a function of event and payload, got {type(fn).__name__}")
    try:
        inspect.signature(fn).bind("event", "payload")
    except ValueError:
        pass  # a builtin that does not tell its parameters
    except TypeError as error:
        raise TypeError(f"expected a function of event and payload: {error}") from error
    return msgspec.structs.replace(ctx, callbacks={**ctx.callbacks, event: fn})


def remove_callback(ctx: Context, event: str) -> Context:
    """Take an event's callback away, if it has one."""
    if event not in ctx.callbacks:
        return ctx
    kept = {name: fn for name, fn in ctx.callbacks.items() if name != event}
    return msgspec.structs.replace(ctx, callbacks=kept)


def set_notify(ctx: Context, sink: Callable[[Notification], object] | None) -> Context:
    """Set the sink of all notifications; None for none.

    Raises:
        TypeError: It cannot be called.

    """
    if sink is not None and not callable(sink):
        raise TypeError(f"expected a function of a notification, got {type(sink).__name__}")
    return msgspec.structs.replace(ctx, notify=sink)


def has_notification(ctx: Context) -> bool:
    """Tell whether there is a sink."""
    return ctx.notify is not None


async def _call(ctx: Context, what: str, fn: Callable[..., Any], *arguments: Any) -> None:
    try:
        result = fn(*arguments)
        if inspect.isawaitable(result):
            await result
    except Exception as error:
        trace = redacted("".join(traceback.format_exception(error)), secrets_of(ctx.deps))
        _logger.error("%s failed\n%s", what, trace)  # noqa: TRY400 - the traceback, but for secrets

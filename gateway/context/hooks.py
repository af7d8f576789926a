"""Hooks: functions that watch the steps of a run, and may stop or change two of them."""

import inspect
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.context.jsonlike import brief

__all__ = [
    "BLOCKING_EVENTS",
    "HOOK_EVENTS",
    "Allow",
    "Deny",
    "Hook",
    "HookRegistry",
    "HookResult",
    "Modify",
    "run_hooks",
]

HOOK_EVENTS = frozenset(
    {"session_start", "pre_request", "post_response", "pre_tool_use", "post_tool_use", "session_end"}
)
"""The steps that hooks watch."""
BLOCKING_EVENTS = frozenset({"pre_request", "pre_tool_use"})
"""Those that a hook may stop."""

_logger = logging.getLogger(__package__)


class Allow(msgspec.Struct, frozen=True, tag="allow"):
    """The step goes on."""


class Deny(msgspec.Struct, frozen=True, tag="deny"):
    """The step does not go on.

    Attributes:
        reason: Why; None where none is given.

    """

    reason: str | None = None


class Modify(msgspec.Struct, frozen=True, tag="modify"):
    """The step goes on with other facts.

    Attributes:
        changes: What to set in the payload.

    """

    changes: dict[str, Any]


HookResult = Allow | Deny | Modify


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """One function that watches one kind of step.

    Attributes:
        event: One of `HOOK_EVENTS`.
        handler: Called with event and payload, gives a `HookResult`; it may be a coroutine function.
        matcher: Which payloads: None all, a text those whose ``tool_name`` it is, a pattern those whose ``tool_name``
            it finds itself in, a function those it is true for.
        priority: Low ones run first; equal ones as they were registered.
        name: For logs.
        fail_closed: Whether a failure of the handler or the matcher stops a step that can be stopped; else it allows.

    """

    event: str
    handler: Callable[[str, Any], Any]
    matcher: str | re.Pattern[str] | Callable[[Any], object] | None = None
    priority: int = 100
    name: str | None = None
    fail_closed: bool = False

    def __post_init__(self) -> None:
        if self.event not in HOOK_EVENTS:
            raise ValueError(f"expected a hook event of {', '.join(sorted(HOOK_EVENTS))}, got {brief(self.event)}")

    def matches(self, payload: Any) -> bool:
        """Tell whether the hook is meant for a payload."""
        matcher = self.matcher
        if matcher is None:
            return True
        tool_name = payload.get("tool_name") if isinstance(payload, Mapping) else None
        if isinstance(matcher, str):
            return tool_name == matcher
        if isinstance(matcher, re.Pattern):
            return isinstance(tool_name, str) and matcher.search(tool_name) is not None
        return bool(matcher(payload))


class HookRegistry:
    """The hooks of a run in their order; a value: registering gives a new one."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: tuple[Hook, ...] = ()) -> None:
        self._hooks = tuple(sorted(hooks, key=_priority))
        """By priority, then as registered."""

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All hooks in the order in which they run."""
        return self._hooks

    def register(self, hook: Hook) -> "HookRegistry":
        """Give the registry with one hook more."""
        return HookRegistry((*self._hooks, hook))

    async def run(self, event: str, payload: Any) -> HookResult:
        """Run the hooks that match.

        Of a step that can be stopped, the first `Deny` ends the run of hooks. Changes are put into the payload that
        later hooks see, and given back together.

        Args:
            event: One of `HOOK_EVENTS`.
            payload: The facts of the step, a map where hooks are to change them.

        Returns:
            `Deny`; else `Modify` with all changes, where there are any; else `Allow`.

        """
        blocking = event in BLOCKING_EVENTS
        changes: dict[str, Any] = {}
        for hook in self._hooks:
            if hook.event != event:
                continue
            result = await _result(hook, event, payload)
            if isinstance(result, Deny) and blocking:
                return result
            if isinstance(result, Modify):
                changes.update(result.changes)
                payload = {**payload, **result.changes} if isinstance(payload, Mapping) else payload
        return Modify(changes=changes) if changes else Allow()


async def run_hooks(registry: HookRegistry | None, event: str, payload: Any) -> HookResult:
    """Run a context's hooks; without a registry every step goes on."""
    return Allow() if registry is None else await registry.run(event, payload)


async def _result(hook: Hook, event: str, payload: Any) -> HookResult:
    try:
        if not hook.matches(payload):
            return Allow()
        result = hook.handler(event, payload)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, Allow | Deny | Modify):
            return result
        raise TypeError(f"expected Allow, Deny or Modify, got {type(result).__name__}")  # noqa: TRY301
    except Exception as error:
        _logger.exception("hook %s of %s failed", hook.name, event)
        return Deny(reason=f"hook {hook.name} failed: {error}") if hook.fail_closed else Allow()


def _priority(hook: Hook) -> int:
    return hook.priority

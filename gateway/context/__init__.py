"""The conversation of one agent: the log is the truth, messages are its projection."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gateway.context.callbacks import (
    EVENTS,
    Notification,
    emit,
    emit_many,
    has_callback,
    has_notification,
    notification_for,
    put_callback,
    remove_callback,
    set_notify,
)
from gateway.context.context import Context
from gateway.context.errors import (
    ContextDecodeError,
    ContextError,
    DecodeErrorCode,
    EventErrorCode,
    ExecutionCancelled,
    InvalidEventError,
    MaxIterationsExceeded,
    ToolError,
    ToolErrorCode,
    ToolTimeout,
)
from gateway.context.hooks import (
    BLOCKING_EVENTS,
    HOOK_EVENTS,
    Allow,
    Deny,
    Hook,
    HookRegistry,
    HookResult,
    Modify,
    run_hooks,
)
from gateway.context.log import (
    BOOKKEEPING_TYPES,
    EVENT_TYPES,
    SURFACE_TYPES,
    Event,
    EventLog,
    chain_hash,
)
from gateway.context.messages import (
    Content,
    ContentPart,
    Entry,
    Message,
    ToolCall,
)
from gateway.context.pubsub import (
    PubSub,
    agent_topic,
    approval_topic,
    configure,
    default_pubsub,
    publish,
    publish_new_events,
    research_topic,
)
from gateway.context.run_context import SANDBOX_MODES, RunContext, SandboxPolicy
from gateway.context.schema import check_arguments
from gateway.context.skills import Skill
from gateway.context.update import ContextUpdate
from gateway.context.usage import Usage
from gateway.context.view import MessageView

if TYPE_CHECKING:
    from gateway.context.approval import (
        ApprovalHandler,
        ApprovalRequest,
        Approve,
        Decision,
        Edit,
        Reject,
        decision_to_raw,
        parse_decision,
        pubsub_handler,
        respond,
    )
    from gateway.context.tools import (
        Tool,
        ToolFailure,
        ToolResult,
        approved_arguments,
        check_cancellation,
        execute_tool,
    )

__all__ = [
    "BLOCKING_EVENTS",
    "BOOKKEEPING_TYPES",
    "EVENTS",
    "EVENT_TYPES",
    "HOOK_EVENTS",
    "SANDBOX_MODES",
    "SURFACE_TYPES",
    "Allow",
    "ApprovalHandler",
    "ApprovalRequest",
    "Approve",
    "Content",
    "ContentPart",
    "Context",
    "ContextDecodeError",
    "ContextError",
    "ContextUpdate",
    "Decision",
    "DecodeErrorCode",
    "Deny",
    "Edit",
    "Entry",
    "Event",
    "EventErrorCode",
    "EventLog",
    "ExecutionCancelled",
    "Hook",
    "HookRegistry",
    "HookResult",
    "InvalidEventError",
    "MaxIterationsExceeded",
    "Message",
    "MessageView",
    "Modify",
    "Notification",
    "PubSub",
    "Reject",
    "RunContext",
    "SandboxPolicy",
    "Skill",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolErrorCode",
    "ToolFailure",
    "ToolResult",
    "ToolTimeout",
    "Usage",
    "agent_topic",
    "approval_topic",
    "approved_arguments",
    "chain_hash",
    "check_arguments",
    "check_cancellation",
    "configure",
    "decision_to_raw",
    "default_pubsub",
    "emit",
    "emit_many",
    "execute_tool",
    "has_callback",
    "has_notification",
    "notification_for",
    "parse_decision",
    "publish",
    "publish_new_events",
    "pubsub_handler",
    "put_callback",
    "remove_callback",
    "research_topic",
    "respond",
    "run_hooks",
    "set_notify",
]

_WAITING = {
    "gateway.context.approval": (
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
    ),
    "gateway.context.tools": (
        "Tool",
        "ToolFailure",
        "ToolResult",
        "approved_arguments",
        "check_cancellation",
        "execute_tool",
    ),
}
"""Modules that need asyncio, and what they offer: loaded at the first use, so that the pure ones come alone."""


def __getattr__(name: str) -> Any:
    for module, names in _WAITING.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

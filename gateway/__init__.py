"""Exact live mirrors of AI agent runs: Redis pub/sub in, websockets out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.bot import Bot, BotEvent
    from gateway.client import Client, Subscription, Update
    from gateway.context import Approve, ContentPart, Context, Decision, Edit, Message, Reject, Tool, ToolCall, Usage
    from gateway.errors import (
        BrokerError,
        BrokerUnavailableError,
        CommandError,
        ConditionError,
        ContextTooLargeError,
        DisconnectCode,
        DisconnectError,
        EmbeddedServerError,
        ErrorCode,
        EventRefusedError,
        FencedError,
        GatewayError,
        HistoryConflictError,
        PositionsError,
        ProviderError,
        PublishError,
        RunEndedError,
        SnapshotError,
        TopicBusyError,
        TopicDeletedError,
        UnreachableError,
        UnsubscribeCode,
    )
    from gateway.following import subscribe
    from gateway.merge import merge
    from gateway.mirror import Mirror
    from gateway.policies import Policy
    from gateway.publisher import Publisher
    from gateway.run import Run
    from gateway.types import Position, Publication, parse_position
    from gateway.worker import Agent, Worker

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Approve",
    "Bot",
    "BotEvent",
    "BrokerError",
    "BrokerUnavailableError",
    "Client",
    "CommandError",
    "ConditionError",
    "ContentPart",
    "Context",
    "ContextTooLargeError",
    "Decision",
    "DisconnectCode",
    "DisconnectError",
    "Edit",
    "EmbeddedServerError",
    "ErrorCode",
    "EventRefusedError",
    "FencedError",
    "GatewayError",
    "HistoryConflictError",
    "Message",
    "Mirror",
    "Policy",
    "Position",
    "PositionsError",
    "ProviderError",
    "Publication",
    "PublishError",
    "Publisher",
    "Reject",
    "Run",
    "RunEndedError",
    "SnapshotError",
    "Subscription",
    "Tool",
    "ToolCall",
    "TopicBusyError",
    "TopicDeletedError",
    "UnreachableError",
    "UnsubscribeCode",
    "Update",
    "Usage",
    "Worker",
    "merge",
    "parse_position",
    "subscribe",
]

_HOMES = {
    "Agent": "gateway.worker",
    "Approve": "gateway.context",
    "Bot": "gateway.bot",
    "BotEvent": "gateway.bot",
    "BrokerError": "gateway.errors",
    "BrokerUnavailableError": "gateway.errors",
    "Client": "gateway.client",
    "CommandError": "gateway.errors",
    "ConditionError": "gateway.errors",
    "ContentPart": "gateway.context",
    "Context": "gateway.context",
    "ContextTooLargeError": "gateway.errors",
    "Decision": "gateway.context",
    "DisconnectCode": "gateway.errors",
    "DisconnectError": "gateway.errors",
    "Edit": "gateway.context",
    "EmbeddedServerError": "gateway.errors",
    "ErrorCode": "gateway.errors",
    "EventRefusedError": "gateway.errors",
    "FencedError": "gateway.errors",
    "GatewayError": "gateway.errors",
    "HistoryConflictError": "gateway.errors",
    "Message": "gateway.context",
    "Mirror": "gateway.mirror",
    "Policy": "gateway.policies",
    "Position": "gateway.types",
    "PositionsError": "gateway.errors",
    "ProviderError": "gateway.errors",
    "Publication": "gateway.types",
    "PublishError": "gateway.errors",
    "Publisher": "gateway.publisher",
    "Reject": "gateway.context",
    "Run": "gateway.run",
    "RunEndedError": "gateway.errors",
    "SnapshotError": "gateway.errors",
    "Subscription": "gateway.client",
    "Tool": "gateway.context",
    "ToolCall": "gateway.context",
    "TopicBusyError": "gateway.errors",
    "TopicDeletedError": "gateway.errors",
    "UnreachableError": "gateway.errors",
    "UnsubscribeCode": "gateway.errors",
    "Update": "gateway.client",
    "Usage": "gateway.context",
    "Worker": "gateway.worker",
    "merge": "gateway.merge",
    "parse_position": "gateway.types",
    "subscribe": "gateway.following",
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: an agent needs no reader's libraries, a reader none of an agent's.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))

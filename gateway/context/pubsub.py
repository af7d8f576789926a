"""Topics of notifications, and the port to whatever carries them."""

import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from gateway.context.log import EventLog

__all__ = [
    "Notification",
    "PubSub",
    "agent_topic",
    "approval_topic",
    "configure",
    "default_pubsub",
    "publish",
    "publish_new_events",
    "research_topic",
]

_logger = logging.getLogger(__package__)


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """What listeners are told.

    Attributes:
        type: What happened.
        payload: Its facts.

    """

    type: str
    payload: Any


class PubSub(Protocol):
    """Carries notifications; keeps nothing."""

    async def publish(self, topic: str, message: Notification) -> None:
        """Give a message to everyone who listens to a topic now."""

    def subscribe(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[Notification]]:
        """Listen to a topic from the entry of the context on, until its exit."""


class _Defaults:
    __slots__ = ("prefix", "pubsub")

    def __init__(self) -> None:
        self.pubsub: PubSub | None = None
        """What `Context.new` takes where it is given none."""
        self.prefix = "gateway"
        """What the topics of sessions begin with."""


_defaults = _Defaults()


def configure(*, pubsub: PubSub | None = None, prefix: str = "gateway") -> None:
    """Set this process's defaults, once at its start.

    Args:
        pubsub: What `Context.new` takes where it is given none; None publishes nothing.
        prefix: What the topics of sessions begin with.

    """
    _defaults.pubsub, _defaults.prefix = pubsub, prefix


def default_pubsub() -> PubSub | None:
    """Give what `configure` was told; None before."""
    return _defaults.pubsub


def agent_topic(session_id: str, *, prefix: str | None = None) -> str:
    """Name the topic of a session's agent; None takes the configured prefix."""
    return _topic(prefix, "agent", session_id)


def research_topic(session_id: str, *, prefix: str | None = None) -> str:
    """Name the topic of a session's research; None takes the configured prefix."""
    return _topic(prefix, "research", session_id)


def approval_topic(session_id: str, *, prefix: str | None = None) -> str:
    """Name the topic on which a session's approvals are answered; None takes the configured prefix."""
    return _topic(prefix, "approval", session_id)


async def publish(pubsub: PubSub | None, topic: str | None, message: Notification) -> bool:
    """Publish; a failure is logged and swallowed.

    Args:
        pubsub: None publishes nothing.
        topic: None publishes nothing.
        message: The notification.

    Returns:
        Whether it was published.

    """
    if pubsub is None or topic is None:
        return False
    try:
        await pubsub.publish(topic, message)
    except Exception:
        _logger.exception("notification %s was not published on %s", message.type, topic)
        return False
    return True


async def publish_new_events(pubsub: PubSub | None, topic: str | None, before: EventLog, after: EventLog) -> int:
    """Publish the events that a log has gained, in order, each as a ``log_event``.

    Args:
        pubsub: None publishes nothing.
        topic: None publishes nothing.
        before: The log as it was last published.
        after: The log as it is.

    Returns:
        How many were published.

    """
    published = 0
    for event in after.since(before.next_seq):
        published += await publish(pubsub, topic, Notification(type="log_event", payload=event.to_dict()))
    return published


def _topic(prefix: str | None, kind: str, session_id: str) -> str:
    return f"{_defaults.prefix if prefix is None else prefix}:{kind}:{session_id}"

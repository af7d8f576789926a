from collections.abc import Iterator
from typing import Any

import pytest

from gateway.context.context import Context
from gateway.context.messages import Message
from gateway.context.pubsub import (
    Notification,
    agent_topic,
    approval_topic,
    configure,
    default_pubsub,
    publish,
    publish_new_events,
    research_topic,
)

from .memory_pubsub import DownPubSub, MemoryPubSub

NOTE = Notification(type="x", payload=1)


@pytest.fixture
def configured() -> Iterator[Any]:
    pubsub = MemoryPubSub()
    configure(pubsub=pubsub, prefix="ours")
    yield pubsub
    configure()


@pytest.mark.usefixtures("configured")
def test_topics_have_the_configured_prefix() -> None:
    topics = [agent_topic("s"), research_topic("s"), approval_topic("s"), agent_topic("s", prefix="")]
    assert topics == ["ours:agent:s", "ours:research:s", "ours:approval:s", ":agent:s"]


def test_new_contexts_take_the_configured_pubsub(configured: Any) -> None:
    assert Context.new().pubsub is configured is default_pubsub()
    own = MemoryPubSub()
    assert Context.new(pubsub=own).pubsub is own
    assert Context.deserialize(Context.new().serialize()).pubsub is None


def test_nothing_is_configured_by_default() -> None:
    assert default_pubsub() is None
    assert agent_topic("s") == "gateway:agent:s"


async def test_publish_needs_pubsub_and_topic(caplog: Any) -> None:
    pubsub = MemoryPubSub()
    assert [await publish(None, "t", NOTE), await publish(pubsub, None, NOTE)] == [False, False]
    assert await publish(pubsub, "t", NOTE)
    assert pubsub.published == [("t", NOTE)]
    assert not caplog.records


async def test_publish_logs_a_failure(caplog: Any) -> None:
    assert not await publish(DownPubSub(), "t", NOTE)
    assert len(caplog.records) == 1


async def test_publish_new_events_publishes_what_was_added() -> None:
    pubsub = MemoryPubSub()
    before = Context.new(messages=[Message.user("a")])
    after = before.log_event("turn_start", {}).add_message(Message.assistant("b"))
    assert await publish_new_events(pubsub, "t", before.log, after.log) == 2
    assert [m.payload for _, m in pubsub.published] == [event.to_dict() for event in after.log.events()[1:]]
    assert await publish_new_events(pubsub, "t", after.log, after.log) == 0
    assert await publish_new_events(DownPubSub(), "t", before.log, after.log) == 0

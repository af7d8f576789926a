import asyncio
import logging
from typing import Any

import pytest

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

from .memory_pubsub import DownPubSub, MemoryPubSub


def test_notification_of_another_event_has_its_name() -> None:
    assert notification_for("on_x", 1) == Notification(type="on_x", payload=1)
    assert {notification_for(event, 1).type for event in EVENTS} == set(EVENTS.values())


async def test_emit_goes_to_callback_sink_and_topic_in_this_order() -> None:
    told, pubsub = [], MemoryPubSub()

    async def callback(event: Any, payload: Any) -> None:
        await asyncio.sleep(0)
        told.append((event, payload))

    async def sink(notification: Any) -> None:
        await asyncio.sleep(0)
        told.append(notification)
        assert pubsub.published == []

    ctx = Context.new(callbacks={"on_error": callback}, notify=sink, pubsub=pubsub, pubsub_topic="t")
    await emit(ctx, "on_error", "boom")
    notification = Notification(type="agent_error", payload="boom")
    assert told == [("on_error", "boom"), notification]
    assert pubsub.published == [("t", notification)]


async def test_emit_logs_each_failure_and_goes_on(caplog: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no")

    async def fail_later(*_: Any) -> None:
        raise RuntimeError("no")

    ctx = Context.new(callbacks={"on_error": fail}, notify=fail_later, pubsub=DownPubSub(), pubsub_topic="t")
    await emit(ctx, "on_error", "boom")
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3


async def test_emit_tells_no_secret_of_the_deps(caplog: Any) -> None:
    secret = "sk-5d41402abc4b"  # what must not be seen

    def fail(_: Any, payload: Any) -> None:
        raise payload

    pubsub = MemoryPubSub()
    ctx = Context.new(deps={"auth": {"token": secret}}, callbacks={"on_error": fail}, pubsub=pubsub, pubsub_topic="t")
    await emit(ctx, "on_error", RuntimeError(f"401 for {secret}"))
    await emit(ctx, "on_agent_complete", {"output": f"used {secret}", "context": ctx})
    assert [message.payload for _, message in pubsub.published] == [
        "RuntimeError('401 for [redacted]')",
        {"output": "used [redacted]", "context": ctx},
    ]
    assert "401 for [redacted]" in caplog.text
    assert secret not in caplog.text


async def test_emit_passes_a_cancellation_through() -> None:
    def cancel(*_: Any) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await emit(Context.new(callbacks={"on_error": cancel}), "on_error", "boom")


async def test_emit_many_keeps_the_order() -> None:
    queue: asyncio.Queue[Notification] = asyncio.Queue()
    ctx = Context.new(notify=queue.put_nowait)
    await emit_many(ctx, [("on_llm_new_delta", "a"), ("on_llm_new_delta", "b")])
    assert [queue.get_nowait().payload for _ in range(2)] == ["a", "b"]


@pytest.mark.parametrize("fn", [5, None, lambda: None, lambda _event: None, lambda _event, _payload, _more: None])
def test_put_callback_refuses_what_takes_no_event_and_payload(fn: Any) -> None:
    with pytest.raises(TypeError):
        put_callback(Context.new(), "on_error", fn)


def test_put_and_remove_give_new_contexts() -> None:
    ctx = Context.new()
    with_one = put_callback(ctx, "on_error", max)
    assert (has_callback(ctx, "on_error"), has_callback(with_one, "on_error")) == (False, True)
    assert not has_callback(remove_callback(with_one, "on_error"), "on_error")
    assert remove_callback(ctx, "on_error") is ctx


def test_set_notify() -> None:
    ctx = set_notify(Context.new(), print)
    assert has_notification(ctx)
    assert not has_notification(set_notify(ctx, None))
    with pytest.raises(TypeError):
        set_notify(ctx, 5)  # type: ignore[arg-type]

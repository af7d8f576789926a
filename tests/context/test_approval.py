import asyncio
import logging
from typing import Any, cast

import pytest

from gateway.context.approval import (
    ApprovalRequest,
    Approve,
    Edit,
    Reject,
    decision_to_raw,
    parse_decision,
    pubsub_handler,
    respond,
)
from gateway.context.pubsub import Notification, agent_topic, approval_topic, configure

from .memory_pubsub import DownPubSub, MemoryPubSub

REQUEST = ApprovalRequest(name="send", id="c1", arguments={"to": "bob"})

BROKEN = Edit(arguments=cast("Any", "x"))


async def asked(pubsub: Any, count: Any = 1) -> Any:
    async with asyncio.timeout(5):
        while sum(message.type == "approval_required" for _, message in pubsub.published) < count:
            await asyncio.sleep(0)
    return [message.payload for _, message in pubsub.published if message.type == "approval_required"]


@pytest.mark.parametrize("decision", [Approve(), Reject(), Reject(reason="why"), Edit(arguments={"a": 1})])
def test_parse_decision_reads_what_decision_to_raw_wrote(decision: Any) -> None:
    assert parse_decision(decision_to_raw(decision)) == decision
    assert parse_decision(decision) == decision


@pytest.mark.parametrize(
    "raw",
    [
        None,
        True,
        "yes",
        "Approve",
        {},
        {"edit": "x"},
        {"reject": 1},
        {"edit": {}, "approve": 1},
        ["approve"],
        BROKEN,
        Approve,
    ],
)
def test_parse_decision_understands_nothing_else(raw: Any) -> None:
    assert parse_decision(raw) is None


async def test_handler_asks_and_takes_the_answer_to_its_own_call() -> None:
    pubsub = MemoryPubSub()
    ask = pubsub_handler(session_id="s", pubsub=pubsub)
    first = asyncio.ensure_future(ask(REQUEST))
    second = asyncio.ensure_future(ask(ApprovalRequest(name="send", id="c2")))
    assert {payload["tool_call_id"] for payload in await asked(pubsub, 2)} == {"c1", "c2"}
    await pubsub.publish(approval_topic("s"), Notification(type="other", payload={"tool_call_id": "c1"}))
    await pubsub.publish(approval_topic("s"), Notification(type="approval_response", payload="c1"))
    await respond(pubsub, "s", "c2", Edit(arguments={"to": "eve"}))
    assert await second == Edit(arguments={"to": "eve"})
    assert not first.done()
    await respond(pubsub, "s", "c1", Approve())
    assert await first == Approve()
    assert pubsub.listeners == {approval_topic("s"): []}


async def test_handler_publishes_what_it_asks_on_the_agent_topic() -> None:
    pubsub = MemoryPubSub()
    task = asyncio.ensure_future(pubsub_handler(session_id="s", pubsub=pubsub)(REQUEST))
    await asked(pubsub)
    await respond(pubsub, "s", "c1", Reject())
    assert await task == Reject()
    payload = {"tool_call_id": "c1", "name": "send", "arguments": {"to": "bob"}, "session_id": "s"}
    assert pubsub.published[0] == (agent_topic("s"), Notification(type="approval_required", payload=payload))


async def test_handler_gives_a_call_without_id_one() -> None:
    pubsub = MemoryPubSub()
    task = asyncio.ensure_future(pubsub_handler(session_id="s", pubsub=pubsub)(ApprovalRequest(name="send")))
    (payload,) = await asked(pubsub)
    await respond(pubsub, "s", payload["tool_call_id"], Approve())
    assert await task == Approve()


async def test_handler_takes_an_answer_that_is_none_for_no(caplog: Any) -> None:
    pubsub = MemoryPubSub()
    task = asyncio.ensure_future(pubsub_handler(session_id="s", pubsub=pubsub)(REQUEST))
    await asked(pubsub)
    answer = {"tool_call_id": "c1", "decision": "sure"}
    await pubsub.publish(approval_topic("s"), Notification(type="approval_response", payload=answer))
    assert await task == Reject()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_handler_rejects_after_its_time() -> None:
    pubsub = MemoryPubSub()
    assert await pubsub_handler(session_id="s", pubsub=pubsub, timeout=0.01)(REQUEST) == Reject()
    assert pubsub.listeners == {approval_topic("s"): []}


async def test_handler_rejects_when_the_subscription_ends() -> None:
    pubsub = MemoryPubSub()
    task = asyncio.ensure_future(pubsub_handler(session_id="s", pubsub=pubsub)(REQUEST))
    await asked(pubsub)
    pubsub.end(approval_topic("s"))
    assert await task == Reject()


async def test_handler_that_is_cancelled_leaves_no_subscription() -> None:
    pubsub = MemoryPubSub()
    task = asyncio.ensure_future(pubsub_handler(session_id="s", pubsub=pubsub)(REQUEST))
    await asked(pubsub)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pubsub.listeners == {approval_topic("s"): []}


async def test_handler_rejects_at_once_where_nobody_can_be_asked(caplog: Any) -> None:
    assert await pubsub_handler(session_id="s")(REQUEST) == Reject()
    assert await pubsub_handler(session_id="s", pubsub=DownPubSub())(REQUEST) == Reject()
    assert len(caplog.records) == 2


async def test_handler_takes_the_configured_pubsub() -> None:
    pubsub = MemoryPubSub()
    configure(pubsub=pubsub)
    try:
        task = asyncio.ensure_future(pubsub_handler(session_id="s")(REQUEST))
        await asked(pubsub)
        await respond(pubsub, "s", "c1", Approve())
        assert await task == Approve()
    finally:
        configure()


async def test_respond_without_pubsub_does_nothing(caplog: Any) -> None:
    await respond(None, "s", "c1", Approve())
    assert not caplog.records

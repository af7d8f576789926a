"""Asking people about tool calls: one answer, whoever gives it, and a no where there is none."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.approval_state import ApprovalState, approval_field
from gateway.approvals import EXPIRED
from gateway.broker.redis import RedisBroker
from gateway.context.approval import Approve, Decision, Edit, Reject
from gateway.context.errors import ToolError
from gateway.context.messages import ToolCall
from gateway.context.tools import Tool, execute_tool
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import Topic
from tests.people import cancel, decide
from tests.publishing import events, mirror, until
from tests.servers import RedisServer

TOPIC = "chat:1"
CALL = ToolCall(id="c1", name="send", arguments={"to": "bob"})


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def publisher(broker: RedisBroker) -> AsyncIterator[Publisher]:
    async with Publisher(broker=broker) as publisher:
        yield publisher


async def pending(broker: RedisBroker, count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many questions are on the topic."""

    async def asked() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await mirror(broker, TOPIC))["approvals"]
        return found if len(found) >= count else []

    found: list[dict[str, Any]] = await until(asked)
    return found


async def asked(broker: RedisBroker, run: Run, *, timeout: float | None = 30.0) -> "asyncio.Task[Decision]":
    task = asyncio.create_task(run.approval(CALL, timeout=timeout))
    await pending(broker)
    return task


async def field(redis: Any, prefix: str, run: str) -> str:
    value = await redis.hget(f"{prefix}:{{{TOPIC}}}", approval_field(run, "c1"))
    return "" if value is None else value.decode()


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf"), 1e15])
async def test_timeout_that_is_none_is_refused_before_anybody_is_asked(
    publisher: Publisher, broker: RedisBroker, timeout: float
) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        with pytest.raises(ValueError, match="expected a timeout above 0 and of at most 315360000 seconds"):
            await run.approval(CALL, timeout=timeout)
        assert (await mirror(broker, TOPIC))["approvals"] == []


@pytest.mark.parametrize(
    ("decision", "more", "expected"),
    [
        ("approve", {}, Approve()),
        ("reject", {}, Reject()),
        ("reject", {"reason": "too dear"}, Reject(reason="too dear")),
        ("edit", {"arguments": '{"to": "eve"}'}, Edit(arguments={"to": "eve"})),
    ],
)
async def test_answer_is_what_people_decide(
    publisher: Publisher, broker: RedisBroker, decision: str, more: dict[str, str], expected: Decision
) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        asking = await asked(broker, run)
        (question,) = await pending(broker)
        assert (question["name"], question["arguments"], question["decision"]) == ("send", '{"to":"bob"}', None)
        assert question["expires_at"] > broker.now()
        assert (await decide(broker, TOPIC, run.id, "c1", decision, **more))["won"]
        assert await asking == expected
    (question,) = (await mirror(broker, TOPIC))["approvals"]
    assert (question["decision"], question["by"]) == (decision, "ann")


@pytest.mark.parametrize("arguments", ["[1]", "{", "", None, 7])
async def test_edit_that_is_no_object_is_a_no(publisher: Publisher, broker: RedisBroker, arguments: Any) -> None:
    """Whoever wrote it: a gateway refuses it before."""
    async with publisher.run(TOPIC, agent="a") as run:
        asking = await asked(broker, run)
        told = {"type": "approval_decided", "run": run.id, "tool_call_id": "c1", "decision": "edit"}
        run._approvals.heard({**told, "arguments": arguments})
        assert await asking == Reject(reason="the edited arguments are no JSON object")


@pytest.mark.parametrize("decision", ["yes", "Approve", "", "pending", None, True, 1, ["approve"], {"approve": True}])
async def test_decision_that_is_none_is_a_no(publisher: Publisher, broker: RedisBroker, decision: Any) -> None:
    """As above."""
    async with publisher.run(TOPIC, agent="a") as run:
        asking = await asked(broker, run)
        run._approvals.heard({"type": "approval_decided", "run": run.id, "tool_call_id": "c1", "decision": decision})
        assert await asking == Reject()


async def test_same_question_has_the_same_answer(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        asking = await asked(broker, run)
        again = asyncio.create_task(run.approval(CALL))
        await decide(broker, TOPIC, run.id, "c1", "approve")
        assert await asking == await again == await run.approval(CALL) == Approve()
    assert [event["type"] for event in await events(broker, TOPIC)].count("approval_required") == 1


async def test_of_many_decisions_one_reaches_the_run(publisher: Publisher, broker: RedisBroker) -> None:
    """Report 70: the decisions of a double click, or of two people, are one."""
    async with publisher.run(TOPIC, agent="a") as run:
        asking = await asked(broker, run)
        decisions = ["approve", "reject"] * 10
        answers = await asyncio.gather(*(decide(broker, TOPIC, run.id, "c1", decision) for decision in decisions))
        (winner,) = [answer["decision"] for answer in answers if answer["won"]]
        assert await asking == (Approve() if winner == "approve" else Reject())
    assert [event["type"] for event in await events(broker, TOPIC)].count("approval_decided") == 1


async def test_question_that_nobody_answers_expires(
    publisher: Publisher, broker: RedisBroker, redis: Any, key_prefix: str
) -> None:
    """Report 72: a question that timed out is none any more, for everybody."""
    async with publisher.run(TOPIC, agent="a") as run:
        assert await run.approval(CALL, timeout=0.05) == EXPIRED
        (question,) = (await mirror(broker, TOPIC))["approvals"]
        assert question["decision"] == "expired"
        state = ApprovalState.parse(await field(redis, key_prefix, run.id))
        assert (state.decision, state.by) == ("expired", None)
        late = await decide(broker, TOPIC, run.id, "c1", "approve")
        assert (late["won"], late["decision"]) == (False, "expired")
        assert await run.approval(CALL) == EXPIRED


async def test_decision_at_the_deadline_has_one_outcome(publisher: Publisher, broker: RedisBroker) -> None:
    for number in range(8):
        async with publisher.run(f"chat:race{number}", agent="a") as run:
            asking = asyncio.create_task(run.approval(CALL, timeout=0.1))
            await asyncio.sleep(0.09 + number * 0.003)
            answer = await decide(broker, run.topic, run.id, "c1", "approve")
            assert await asking == (Approve() if answer["won"] else EXPIRED)
        (question,) = (await mirror(broker, run.topic))["approvals"]
        assert question["decision"] == ("approve" if answer["won"] else "expired")


async def test_question_without_a_timeout_waits(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        asking = await asked(broker, run, timeout=None)
        assert (await pending(broker))[0]["expires_at"] is None
        await decide(broker, TOPIC, run.id, "c1", "approve")
        assert await asking == Approve()


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
async def test_timeout_that_is_none_is_refused(publisher: Publisher, timeout: float) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        with pytest.raises(ValueError, match="above 0"):
            await run.approval(CALL, timeout=timeout)


@pytest.mark.parametrize("call", [ToolCall(name="t"), ToolCall(id="c", arguments="{}")])
async def test_call_without_a_name_is_refused(publisher: Publisher, call: ToolCall) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        with pytest.raises(ValueError, match="an id, a name"):
            await run.approval(call)


async def test_stop_during_a_question_ends_both(
    publisher: Publisher, broker: RedisBroker, redis: Any, key_prefix: str
) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        stopping = asyncio.create_task(_stop(broker, run))
        await run.approval(CALL)
        raise AssertionError("not reached")
    await stopping
    state = await mirror(broker, TOPIC)
    assert (state["runs"][0]["status"], state["approvals"][0]["decision"]) == ("cancelled", "expired")
    assert ApprovalState.parse(await field(redis, key_prefix, run.id)).decision == "expired"
    late = await decide(broker, TOPIC, run.id, "c1", "approve")
    assert (late["won"], late["decision"]) == (False, "expired")


async def _stop(broker: RedisBroker, run: Run) -> None:
    await pending(broker)
    await cancel(broker, TOPIC, run.id)


async def test_question_of_a_lost_run_is_settled_by_the_next(broker: RedisBroker, redis: Any, key_prefix: str) -> None:
    async with Publisher(broker=broker, lease=0.2) as publisher:
        first = publisher.run(TOPIC, agent="a")
        await first.__aenter__()
        asking = await asked(broker, first)
        await first._ear.aclose()
        await first._writer.sender.aclose()  # as if its process had died
        asking.cancel()

        async def buried() -> bool:
            return await publisher.sweeper.bury(Topic(TOPIC), first.id) is None

        await until(buried)
        assert ApprovalState.parse(await field(redis, key_prefix, first.id)).decision is None
        async with publisher.run(TOPIC, agent="a"):
            pass
        publisher._runs.clear()
    assert ApprovalState.parse(await field(redis, key_prefix, first.id)).decision == "expired"


# the handler of the run's context


async def test_handler_of_the_context_asks_on_the_topic(publisher: Publisher, broker: RedisBroker) -> None:
    ran: list[Any] = []
    tool = Tool(name="send", function=ran.append, takes_context=False, requires_approval=True)

    async def call(run: Run, call_id: str | None) -> None:
        await execute_tool(tool, {"to": "bob"}, run.context.to_run_context(approval_gated=False), call_id=call_id)

    async with publisher.run(TOPIC, agent="a") as run:
        one = asyncio.create_task(call(run, "c1"))
        other = asyncio.create_task(call(run, None))
        questions = await pending(broker, 2)
        for question in questions:
            decision = "approve" if question["tool_call_id"] == "c1" else "reject"
            await decide(broker, TOPIC, run.id, question["tool_call_id"], decision)
        await one
        with pytest.raises(ToolError, match="approval_rejected"):
            await other
    assert ran == [{"to": "bob"}]


async def test_decision_survives_a_lost_wake_up(broker: RedisBroker) -> None:
    async with Publisher(broker=broker, lease=0.6) as publisher, publisher.run(TOPIC, agent="a") as run:
        await publisher.hearing.aclose()
        asking = await asked(broker, run)
        await decide(broker, TOPIC, run.id, "c1", "approve")
        assert await asking == Approve()


async def test_decision_that_a_rolled_back_broker_lost_is_written_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "data") as server:
        broker = RedisBroker(server.url, timeout=1.0)
        async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
            asking = await asked(broker, run)
            async with Redis.from_url(server.url) as client:
                await client.save()
            await decide(broker, TOPIC, run.id, "c1", "edit", arguments='{"to":"eve"}')
            assert await asking == Edit(arguments={"to": "eve"})
            with server.away():
                pass
            await run.log("info", "it goes on")
            await run.flush()
            (question,) = (await mirror(broker, TOPIC))["approvals"]
            assert (question["decision"], question["by"], question["edited"]) == ("edit", "ann", '{"to":"eve"}')
            late = await decide(broker, TOPIC, run.id, "c1", "reject")
            assert (late["won"], late["decision"], late["by"]) == (False, "edit", "ann")
        await broker.aclose()

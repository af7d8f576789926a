import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.broker.port import Appended
from gateway.broker.redis import RedisBroker
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.errors import (
    ContextTooLargeError,
    EventRefusedError,
    FencedError,
    RunEndedError,
)
from gateway.publisher import Publisher
from gateway.recorder import lost_event
from gateway.types import START, Topic
from tests.publishing import SlowBroker, events, mirror, until

TOPIC = "chat:1"


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def publisher(broker: RedisBroker) -> AsyncIterator[Publisher]:
    async with Publisher(broker=broker) as publisher:
        yield publisher


async def kinds(broker: RedisBroker) -> list[str]:
    return [event["type"] for event in await events(broker, TOPIC)]


async def lose(broker: RedisBroker, run: str) -> None:
    """Declare a run lost as soon as its lease has lapsed."""

    async def lost() -> bool:
        data = lost_event(run, at=broker.now())
        return isinstance(await broker.declare_lost(Topic(TOPIC), run=run, data=data, position=START), Appended)

    await until(lost)


async def test_run_is_on_the_topic_from_entering_to_leaving(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a", model="m", input="do it", max_iterations=3) as run:
        state = await mirror(broker, TOPIC)
        assert [(entry["run"], entry["status"]) for entry in state["runs"]] == [(run.id, "running")]
        assert run.ended is None
    start, *_, end = await events(broker, TOPIC)
    assert (start["agent"], start["model"], start["input"], start["max_iterations"]) == ("a", "m", "do it", 3)
    assert (start["run"], end["run"], end["type"]) == (run.id, run.id, "agent_complete")
    state = await mirror(broker, TOPIC)
    assert state["runs"][0]["status"] == "completed"
    assert (state["context"]["agent_name"], state["context"]["max_iterations"]) == ("a", 3)
    assert run.ended == run.position


async def test_exception_ends_the_run_as_failed_with_what_was_open(publisher: Publisher, broker: RedisBroker) -> None:
    async def agent() -> None:
        async with publisher.run(TOPIC, agent="a") as run:
            await run.thinking("hm")
            await run.delta("so far")
            await run.tool_call_delta(index=0, id="c1", name="safe", text="{}")
            await run.tool_call_delta(index=1, id="c2", name="delete", text='{"path": "/')
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        await agent()
    state = await mirror(broker, TOPIC)
    assert (state["runs"][0]["status"], state["runs"][0]["error"], state["open"]) == ("failed", "boom", [])
    sealed, result = state["context"]["events"]
    data = sealed["data"]
    assert (data["content"], data["thinking"], data["metadata"]["interrupted"]) == ("so far", "hm", True)
    assert [call["id"] for call in data["tool_calls"]] == ["c1"]
    assert data["metadata"]["partial_tool_calls"] == [{"id": "c2", "name": "delete", "arguments": '{"path": "/'}]
    assert (result["type"], result["data"]["tool_call_id"]) == ("tool_result", "c1")


async def test_cancellation_ends_the_run_as_cancelled(publisher: Publisher, broker: RedisBroker) -> None:
    started = asyncio.Event()

    async def agent() -> None:
        async with publisher.run(TOPIC, agent="a") as run:
            await run.delta("half an ans")
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(agent())
    await started.wait()
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await task
    state = await mirror(broker, TOPIC)
    assert (state["runs"][0]["status"], state["runs"][0]["error"]) == ("cancelled", "enough")
    assert state["context"]["events"][0]["data"]["metadata"] == {"interrupted": True}


async def test_cancelled_start_leaves_no_running_run(broker: RedisBroker) -> None:
    slow = SlowBroker(broker)
    slow.hold()
    async with Publisher(broker=slow) as publisher:
        entering = asyncio.create_task(publisher.run(TOPIC, agent="a").__aenter__())
        await until(lambda: asyncio.sleep(0, slow.appends))
        entering.cancel()
        await asyncio.sleep(0)
        slow.release()
        with pytest.raises(asyncio.CancelledError):
            await entering
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "cancelled"


async def test_end_is_written_once_and_answers_the_same(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        first, second = await asyncio.gather(run.complete({"answer": 42}), run.fail("late"))
        assert first == second == await run.cancel("later") == run.ended
        with pytest.raises(RunEndedError):
            await run.delta("too late")
        with pytest.raises(RunEndedError):
            await run.flush()
    ends = [event for event in await events(broker, TOPIC) if event["type"].startswith("agent_")][1:]
    assert [(event["type"], event["result"]) for event in ends] == [("agent_complete", {"answer": 42})]


async def test_end_that_cannot_be_told_is_an_end_all_the_same(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.complete("x" * 200_000)
    (end,) = [event for event in await events(broker, TOPIC) if event["type"] == "agent_complete"]
    assert "not published" in end["result"]


async def test_large_open_part_is_sealed_whole(publisher: Publisher, broker: RedisBroker) -> None:
    run = publisher.run(TOPIC, agent="a")

    async def agent() -> None:
        async with run:
            await run.delta("x" * 200_000)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await agent()
    (event,) = (await mirror(broker, TOPIC))["context"]["events"]
    assert 0 < len(event["data"]["content"]) < 200_000
    (message,) = (await publisher.context(TOPIC)).entries
    assert (message.text, message.metadata) == ("x" * 200_000, {"interrupted": True})


async def test_run_that_was_declared_lost_hears_it_at_its_next_append(broker: RedisBroker) -> None:
    async with Publisher(broker=broker, lease=0.2) as publisher:
        slow = SlowBroker(broker)
        publisher.broker = slow
        ran = False

        run = publisher.run(TOPIC, agent="a")

        async def agent() -> None:
            nonlocal ran
            async with run:
                await run.delta("text")
                await run.flush()
                # A process that stands still: neither appends nor renewals leave it.
                run._writer.sender._renew_at = float("inf")
                await lose(broker, run.id)
                await run.tool_call("c1", "t", "{}")
                ran = True

        with pytest.raises(FencedError):
            await agent()
        assert not ran
        for late in (run.delta("x"), run.add_message(Message.user("x")), run.log("info", "x"), run.flush()):
            with pytest.raises(FencedError):
                await late
        assert await run.complete() == run.ended
    state = await mirror(broker, TOPIC)
    assert (state["runs"][0]["status"], state["open"][0]["interrupted"]) == ("lost", True)
    assert "tool_call" not in await kinds(broker)


async def test_leaving_says_that_the_run_was_lost(broker: RedisBroker) -> None:
    async with Publisher(broker=broker, lease=0.2) as publisher:
        run = publisher.run(TOPIC, agent="a")

        async def agent() -> None:
            async with run:
                run._writer.sender._renew_at = float("inf")
                await lose(broker, run.id)

        with pytest.raises(FencedError):
            await agent()
        assert (await kinds(broker)).count("agent_complete") == 0


@pytest.mark.parametrize("then", ["lost", "replaced"])
async def test_block_that_only_waits_is_left_once_its_run_is_fenced(broker: RedisBroker, then: str) -> None:
    """Nobody could stop it any more: for every page the run is over."""
    async with Publisher(broker=broker, lease=0.2) as publisher:
        begun, cleaned = asyncio.Event(), asyncio.Event()
        first = publisher.run(TOPIC, agent="a")

        async def agent() -> None:
            async with first:
                first._writer.sender._renew_at = float("inf")
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    cleaned.set()

        working = asyncio.create_task(agent())
        await begun.wait()
        await lose(broker, first.id)
        if then == "replaced":
            await publisher.run(TOPIC, agent="b").__aenter__()
        assert not cleaned.is_set()
        first._writer.sender._renew_at = 0.0  # the process goes on
        first._writer.sender._wake.set()
        with pytest.raises(FencedError):
            await working
        assert cleaned.is_set()
        assert working.cancelling() == 0


async def test_lease_is_kept_while_the_run_is_silent(broker: RedisBroker) -> None:
    async with Publisher(broker=broker, lease=0.3) as publisher, publisher.run(TOPIC, agent="a") as run:
        deadline = broker.now() + 900
        while broker.now() < deadline:
            data = lost_event(run.id, at=broker.now())
            answer = await broker.declare_lost(Topic(TOPIC), run=run.id, data=data, position=START)
            assert not isinstance(answer, Appended)
            await asyncio.sleep(0.02)
        await run.delta("alive")
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "completed"


async def test_run_after_a_lost_one_seals_what_that_left_open(broker: RedisBroker) -> None:
    async with Publisher(broker=broker, lease=0.2) as publisher:
        lost = publisher.run(TOPIC, agent="a")

        async def agent() -> None:
            async with lost:
                call = ToolCall(id="c0", name="t", arguments="{}")
                await lost.add_message(Message.assistant("I call", tool_calls=(call,)))
                await lost.delta("unfinished")
                await lost.flush()
                lost._writer.sender._renew_at = float("inf")
                await lose(broker, lost.id)
                await lost.flush()
                await lost.delta("x")
                await lost.flush()

        with pytest.raises(FencedError):
            await agent()
        async with publisher.run(TOPIC, agent="b") as run:
            seen = [(message.role, message.text) for message in run.context.entries]
    assert seen[:2] == [("assistant", "I call"), ("assistant", "unfinished")]
    assert seen[2][0] == "tool"
    state = await mirror(broker, TOPIC)
    assert state["open"] == []
    sealed = state["context"]["events"][1]
    assert (sealed["run"], sealed["data"]["metadata"]) == (lost.id, {"interrupted": True})


async def test_text_waits_for_room_while_the_broker_is_slow(broker: RedisBroker) -> None:
    slow = SlowBroker(broker)
    async with Publisher(broker=slow, max_unsent=10_000) as publisher, publisher.run(TOPIC, agent="a") as run:
        slow.hold()
        written = 0

        async def write() -> None:
            nonlocal written
            for _ in range(100):
                await run.delta("x" * 1000)
                written += 1

        writing = asyncio.create_task(write())
        await until(lambda: asyncio.sleep(0.01, run._writer.outbox.full))
        assert written < 20
        assert run._writer.outbox.unsent < 12_000
        slow.release()
        await writing
        await run.flush()
        assert len((await mirror(broker, TOPIC))["open"][0]["text"]) == 100_000


async def test_deltas_merge_while_an_append_is_under_way(broker: RedisBroker) -> None:
    slow = SlowBroker(broker)
    async with Publisher(broker=slow) as publisher, publisher.run(TOPIC, agent="a") as run:
        slow.hold()
        await run.delta("first")
        await until(lambda: asyncio.sleep(0, len(slow.appends) == 2))
        for number in range(50):
            await run.delta(f" {number}")
        slow.release()
        await run.flush()
        assert [len(request.entries) for request in slow.appends[1:]] == [1, 1]


async def test_flush_interval_of_zero_keeps_every_delta(broker: RedisBroker) -> None:
    async with Publisher(broker=broker, flush_interval=0) as publisher, publisher.run(TOPIC, agent="a") as run:
        for character in "abc":
            await run.delta(character)
        await run.flush()
        assert [event.get("text") for event in await events(broker, TOPIC)][-3:] == ["a", "b", "c"]


async def test_full_history_stops_the_run_and_takes_its_end(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=20_000)
    async with Publisher(broker=broker) as publisher:
        run = publisher.run(TOPIC, agent="a")

        async def agent() -> None:
            async with run:
                for number in range(20):
                    await run.add_message(Message.user(f"{number}" * 2000))
                    await run.flush()

        with pytest.raises(ContextTooLargeError):
            await agent()
        state = await mirror(broker, TOPIC)
        assert (state["runs"][0]["status"], state["open"]) == ("failed", [])
        # The log goes on where the store has it.
        context = await publisher.context(TOPIC)
        assert 0 < len(context.entries) < 20
        assert run.ended is not None
    await broker.aclose()


async def test_parallel_writers_of_one_run_keep_the_log_whole(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:

        async def tool(number: int) -> None:
            await run.tool_call(f"c{number}", "t", "{}")
            await run.tool_result(f"c{number}", "t", f"result {number}")

        await asyncio.gather(*(tool(number) for number in range(20)))
        own: Context = run.context
    stored = await publisher.context(TOPIC)
    assert stored.log.next_seq == own.log.next_seq == 40
    assert [message.text for message in stored.entries] == [message.text for message in own.entries]


async def test_delta_for_an_ended_message_is_refused(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.delta("x", message="m1")
        await run.add_message(Message.assistant("x"), message_id="m1")
        late: list[Any] = [run.delta("y", message="m1"), run.add_message(Message.assistant("y"), message_id="m1")]
        for call in late:
            with pytest.raises(EventRefusedError):
                await call

"""Stopping a run: what its task, its topic and its caller see."""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.broker.redis import RedisBroker
from gateway.context.errors import ExecutionCancelled
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import check_cancellation
from gateway.errors import RunEndedError
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.stop import Stop
from tests.people import cancel
from tests.publishing import SlowBroker, events, mirror, until, written_after_a_stop

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


async def requested(run: Run) -> str:
    async def check() -> str | None:
        return run.stop_requested

    found = await until(check)
    assert isinstance(found, str)
    return found


async def ended(broker: RedisBroker) -> dict[str, Any]:
    end = (await events(broker, TOPIC))[-1]
    assert end["type"] == "agent_cancelled"
    return end


# Stop


async def test_request_cancels_the_task_that_entered() -> None:
    stop = Stop()
    stop.enter()
    stop.request("enough", now=True)
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await asyncio.sleep(10)
    assert stop.leave()
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_request_after_the_step_cancels_nothing() -> None:
    stop = Stop()
    stop.enter()
    stop.request("enough", now=False)
    await asyncio.sleep(0)
    assert (stop.check(), stop.sent) == ("enough", False)
    assert stop.leave()


async def test_request_at_once_overtakes_one_after_the_step() -> None:
    stop = Stop()
    stop.enter()
    stop.request("first", now=False)
    stop.request("second", now=True)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    assert stop.check() == "first"
    stop.leave()


async def test_request_outside_the_block_cancels_nothing() -> None:
    stop = Stop()
    stop.enter()
    stop.leave()
    stop.request("too late", now=True)
    await asyncio.sleep(0)
    assert not stop.sent


async def test_somebody_elses_cancellation_is_not_taken_away() -> None:
    stop = Stop()
    stop.enter()
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    stop.request("enough", now=True)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    assert not stop.leave()
    assert task.uncancel() == 0


# a run without the loop


async def test_stopped_block_is_left_quietly_with_the_end_written(publisher: Publisher, broker: RedisBroker) -> None:
    """Reports 59 and 61: what was written stays, and what it has cost."""
    async with publisher.run(TOPIC, agent="a") as run:
        await run.delta("half an ans")
        await run.usage({"output_tokens": 3}, call="c")
        await run.flush()
        assert (await cancel(broker, TOPIC, run.id))["status"] == "requested"
        await asyncio.Event().wait()
    assert run.stop_requested == "stopped by ann"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    end = await ended(broker)
    assert (end["reason"], end["usage"]["output_tokens"]) == ("stopped by ann", 3)
    state = await mirror(broker, TOPIC)
    assert state["runs"][0]["status"] == "cancelled"
    assert state["runs"][0]["cancel"] == {"by": "ann", "mode": "now"}
    (message,) = state["context"]["events"]
    assert (message["data"]["content"], message["data"]["metadata"]["interrupted"]) == ("half an ans", True)


async def test_run_is_stopped_right_after_it_began(publisher: Publisher, broker: RedisBroker) -> None:
    for _ in range(5):
        async with publisher.run(TOPIC, agent="a") as run:
            await cancel(broker, TOPIC, run.id)
            await asyncio.Event().wait()
        await ended(broker)


async def test_open_tool_call_is_answered_as_interrupted(publisher: Publisher, broker: RedisBroker) -> None:
    """Report 61."""
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.assistant(None, tool_calls=(ToolCall(id="c1", name="t", arguments="{}"),)))
        await run.tool_call("c1", "t", "{}")
        await cancel(broker, TOPIC, run.id)
        await asyncio.Event().wait()
    kinds = [event["type"] for event in await events(broker, TOPIC)]
    assert kinds[-2:] == ["tool_result", "agent_cancelled"]
    assert [event["data"].get("tool_call_id") for event in (await mirror(broker, TOPIC))["context"]["events"]][
        -1
    ] == "c1"


async def test_late_stop_never_hits_the_next_run(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as first:
        pass
    async with publisher.run(TOPIC, agent="a") as second:
        assert (await cancel(broker, TOPIC, first.id))["status"] == "ended"
        await second.delta("on and on")
        await second.flush()
    assert second.stop_requested is None
    assert (await events(broker, TOPIC))[-1]["type"] == "agent_complete"


async def test_stop_after_the_step_shows_in_the_check_only(publisher: Publisher, broker: RedisBroker) -> None:
    """Report 59: the other of the two modes, the step's usage kept."""
    async with publisher.run(TOPIC, agent="a") as run:
        await run.usage({"output_tokens": 3}, call="c")
        await cancel(broker, TOPIC, run.id, mode="after_step")
        await requested(run)
        await run.delta("to the end of the step")
        with pytest.raises(ExecutionCancelled, match="stopped by ann"):
            check_cancellation(run.context)
        run.check()
    end = await ended(broker)
    assert (end["reason"], end["usage"]["output_tokens"]) == ("stopped by ann", 3)
    assert (await mirror(broker, TOPIC))["runs"][0]["cancel"]["mode"] == "after_step"


async def test_stop_after_the_step_may_come_too_late(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await cancel(broker, TOPIC, run.id, mode="after_step")
        await requested(run)
    assert (await events(broker, TOPIC))[-1]["type"] == "agent_complete"


async def test_shield_puts_a_stop_off(publisher: Publisher, broker: RedisBroker) -> None:
    finished = False
    async with publisher.run(TOPIC, agent="a") as run:
        async with run.shield():
            await cancel(broker, TOPIC, run.id)
            await requested(run)
            await asyncio.sleep(0.01)
            finished = True
        raise AssertionError("not reached")
    assert finished
    await ended(broker)


async def test_shield_left_by_an_error_keeps_the_stop(publisher: Publisher, broker: RedisBroker) -> None:
    async def agent() -> None:
        async with publisher.run(TOPIC, agent="a") as run, run.shield():
            await cancel(broker, TOPIC, run.id)
            await requested(run)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await agent()
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] in {"cancelled", "failed"}
    await asyncio.sleep(0)

    async with publisher.run(TOPIC, agent="a") as run:
        with contextlib.suppress(RuntimeError):
            async with run.shield():
                await cancel(broker, TOPIC, run.id)
                await requested(run)
                raise RuntimeError
        await asyncio.Event().wait()
    await ended(broker)


async def test_run_stops_itself(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        run.stop("enough")
        await asyncio.Event().wait()
    assert (await ended(broker))["reason"] == "enough"
    async with publisher.run(TOPIC, agent="a") as run:
        run.stop("at the last moment")
    assert (await mirror(broker, TOPIC))["runs"][1]["status"] == "completed"


async def test_cancellation_while_the_end_is_written_does_not_lose_it(broker: RedisBroker) -> None:
    slow = SlowBroker(broker)

    async def agent(publisher: Publisher) -> None:
        async with publisher.run(TOPIC, agent="a"):
            slow.hold()

    async with Publisher(broker=slow) as publisher:
        task = asyncio.create_task(agent(publisher))
        await until(lambda: asyncio.sleep(0, len(slow.appends) == 2))
        task.cancel()
        await asyncio.sleep(0)
        slow.release()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await events(broker, TOPIC))[-1]["type"] == "agent_complete"


async def test_block_that_swallows_the_cancellation_was_stopped_all_the_same(
    publisher: Publisher, broker: RedisBroker
) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await cancel(broker, TOPIC, run.id)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await run.add_message(Message.assistant("That is all I have."))
    await ended(broker)
    await asyncio.sleep(0)


async def test_block_that_ends_itself_keeps_its_end(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await cancel(broker, TOPIC, run.id)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await run.complete("done anyway")
    assert (await events(broker, TOPIC))[-1]["type"] == "agent_complete"


async def test_error_after_a_stop_does_not_make_it_a_failure(publisher: Publisher, broker: RedisBroker) -> None:
    async def agent() -> None:
        async with publisher.run(TOPIC, agent="a") as run:
            await cancel(broker, TOPIC, run.id)
            try:
                await asyncio.Event().wait()
            finally:
                raise RuntimeError("while cleaning up")

    with pytest.raises(RuntimeError):
        await agent()
    await ended(broker)


async def test_cancellation_from_outside_goes_on_through_a_stop(publisher: Publisher, broker: RedisBroker) -> None:
    started = asyncio.Event()

    async def agent() -> None:
        async with publisher.run(TOPIC, agent="a") as run:
            try:
                started.set()
                await asyncio.Event().wait()
            finally:
                await cancel(broker, TOPIC, run.id)
                await requested(run)

    task = asyncio.create_task(agent())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ended(broker)


async def test_stop_of_a_parent_ends_the_run_inside(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as outer:
        async with publisher.run("chat:1/inner", agent="b", parent=outer.id) as inner:
            await cancel(broker, TOPIC, outer.id)
            await asyncio.Event().wait()
        raise AssertionError("not reached")
    assert inner.ended is not None
    assert (await mirror(broker, "chat:1/inner"))["runs"][0]["status"] == "cancelled"
    await ended(broker)


async def test_nothing_of_the_run_is_written_after_its_end(publisher: Publisher, broker: RedisBroker) -> None:
    """Report 62: a late write makes no finished run of a cancelled one."""

    async def write(run: Run) -> None:
        while True:
            await run.delta("more ")
            await asyncio.sleep(0)

    run = publisher.run(TOPIC, agent="a")
    async with run:
        writing = asyncio.create_task(write(run))
        await cancel(broker, TOPIC, run.id)
        await asyncio.Event().wait()
    with pytest.raises(Exception, match="already ended"):
        await writing
    await ended(broker)
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "cancelled"


WRITES: dict[str, Callable[[Run, str], Awaitable[Any]]] = {
    "delta": lambda run, _: run.delta("some text "),
    "thinking": lambda run, _: run.thinking("hm "),
    "message": lambda run, _: run.add_message(Message.assistant("whole")),
    "call": lambda run, name: run.add_message(
        Message.assistant(None, tool_calls=(ToolCall(id=name, name="t", arguments="{}"),))
    ),
    "start": lambda run, name: run.tool_call(name, "t", "{}"),
    "result": lambda run, name: run.tool_result(name, "t", "ok"),
    "bookkeeping": lambda run, _: run.log_event("step_start"),
    "usage": lambda run, name: run.usage({"output_tokens": 3}, call=name),
    "log": lambda run, _: run.log("info", "it goes on"),
    "context": lambda run, name: run.set_context(title=name),
    "flush": lambda run, _: run.flush(),
}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    writers=st.lists(st.lists(st.sampled_from(sorted(WRITES)), min_size=1, max_size=6), min_size=1, max_size=4),
    before=st.integers(0, 30),
    mode=st.sampled_from(["now", "after_step"]),
)
def test_no_history_goes_on_after_its_cancelled(
    redis_url: str, writers: list[list[str]], before: int, mode: str
) -> None:
    """Whatever a run's tasks are at when the stop comes, its `agent_cancelled` is the last of it, and there is one."""
    asyncio.run(_stopped_while_it_writes(redis_url, writers, before=before, mode=mode))


async def _stopped_while_it_writes(redis_url: str, writers: list[list[str]], *, before: int, mode: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=f"t{secrets.token_hex(6)}")
    written = 0

    async def write(run: Run, number: int) -> None:
        nonlocal written
        for turn in itertools.count():
            for kind in writers[number]:
                await WRITES[kind](run, f"{kind}-{number}-{turn}")
                written += 1
                await asyncio.sleep(0)

    async with Publisher(broker=broker, flush_interval=0) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            tasks = [asyncio.create_task(write(run, number)) for number in range(len(writers))]
            await until(lambda: asyncio.sleep(0, written >= before))
            await cancel(broker, TOPIC, run.id, mode=mode)
            reason = await requested(run)
            await (run.cancel(reason) if mode == "after_step" else asyncio.Event().wait())
        assert all(isinstance(error, RunEndedError) for error in await asyncio.gather(*tasks, return_exceptions=True))
        # The next one's history goes on behind it.
        async with publisher.run(TOPIC, agent="b") as after:
            await after.add_message(Message.assistant("next"))
    history = await events(broker, TOPIC)
    ends = [event["type"] for event in history if event["type"].startswith("agent_") and event.get("run") == run.id]
    assert [end for end in ends if end not in {"agent_delta", "agent_thinking"}] == ["agent_start", "agent_cancelled"]
    assert written_after_a_stop(history) == []
    state = await mirror(broker, TOPIC)
    assert ([entry["status"] for entry in state["runs"]], state["open"]) == (["cancelled", "completed"], [])
    await broker.aclose()

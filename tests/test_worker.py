import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import Topic
from gateway.worker import Agent, Worker
from tests.people import act, decide
from tests.publishing import events, mirror, send, until
from tests.servers import RedisServer

TOPIC = "chat:1"


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@contextlib.asynccontextmanager
async def working(broker: RedisBroker, agent: Agent, *, lease: float = 30.0, **options: float) -> AsyncIterator[Worker]:
    """A worker at work; it is stopped at the end, its runs with it."""
    async with Publisher(broker=broker, lease=lease) as publisher:
        worker = Worker(publisher, agent, name="helper", model="m", **options)  # type: ignore[arg-type]  # of ints too
        serving = asyncio.create_task(worker.serve())
        try:
            yield worker
        finally:
            worker.stop()
            await serving


async def echo(run: Run, message: Message) -> None:
    await run.add_message(Message.assistant(f"You said {message.text}"))


def finished(broker: RedisBroker, topic: str, runs: int = 1) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        states = [run["status"] for run in (await mirror(broker, topic))["runs"]]
        return len(states) == runs and not {"running", "cancelling"} & set(states)

    return check


def texts(state: dict[str, dict[str, list[dict[str, dict[str, str]]]]]) -> list[str]:
    return [event["data"]["content"] for event in state["context"]["events"]]


async def test_message_is_answered_by_a_run(broker: RedisBroker) -> None:
    async with working(broker, echo):
        await send(broker, TOPIC, "m1", "hello")
        await until(finished(broker, TOPIC))
    state = await mirror(broker, TOPIC)
    assert texts(state) == ["hello", "You said hello"]
    assert state["queue"] == []
    assert [(run["agent"], run["model"], run["status"]) for run in state["runs"]] == [("helper", "m", "completed")]
    kinds = [event["type"] for event in await events(broker, TOPIC) if event["type"] != "context"]
    assert kinds[:4] == ["message_queued", "agent_start", "message_taken", "user_message"]


async def test_message_that_waited_before_the_worker_is_found(broker: RedisBroker) -> None:
    await send(broker, TOPIC, "m1", "hello", wake=False)
    async with working(broker, echo):
        await until(finished(broker, TOPIC))
    assert texts(await mirror(broker, TOPIC)) == ["hello", "You said hello"]


async def test_message_whose_wake_up_was_lost_is_found(broker: RedisBroker) -> None:
    async with working(broker, echo):
        await send(broker, TOPIC, "m1", "one")
        await until(finished(broker, TOPIC))
        await send(broker, TOPIC, "m2", "two", wake=False)
        await until(finished(broker, TOPIC, 2))


async def test_worker_outlives_a_right_that_is_taken_from_it_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(tmp_path) as server:
        broker = RedisBroker(server.url, timeout=5)
        async with Redis(port=server.port) as redis, working(broker, echo):
            await send(broker, TOPIC, "m1", "one")
            await until(finished(broker, TOPIC))
            await redis.execute_command("ACL", "SETUSER", "default", "-zrangebyscore")  # type: ignore[no-untyped-call]

            async def told() -> bool:
                return "topics that wait cannot be looked for" in caplog.text

            await until(told)
            await send(broker, TOPIC, "m2", "two")
            await until(finished(broker, TOPIC, 2))
            await redis.execute_command("ACL", "SETUSER", "default", "+zrangebyscore")  # type: ignore[no-untyped-call]
            await send(broker, TOPIC, "m3", "three", wake=False)
            await until(finished(broker, TOPIC, 3))
        await broker.aclose()


async def test_wake_up_is_enough_without_a_note(broker: RedisBroker) -> None:
    async with working(broker, echo):
        await send(broker, "chat:0", "m0", "first")
        await until(finished(broker, "chat:0"))
        await send(broker, TOPIC, "m1", "hello")
        await broker.set_due(Topic(TOPIC), None)
        await until(finished(broker, TOPIC))


async def test_messages_of_a_topic_are_answered_in_order(broker: RedisBroker) -> None:
    at_once = 0

    async def agent(run: Run, message: Message) -> None:
        nonlocal at_once
        at_once += 1
        assert at_once == 1
        await run.delta("…")
        await asyncio.sleep(0.02)
        await echo(run, message)
        at_once -= 1

    async with working(broker, agent):
        for number in range(5):
            await send(broker, TOPIC, f"m{number}", str(number))
        await until(finished(broker, TOPIC, 5))
    expected = [text for number in range(5) for text in (str(number), f"You said {number}")]
    assert texts(await mirror(broker, TOPIC)) == expected


async def test_topics_are_answered_at_once_within_the_bound(broker: RedisBroker) -> None:
    running: set[str] = set()
    most = 0
    enough = asyncio.Event()

    async def agent(run: Run, message: Message) -> None:
        nonlocal most
        running.add(run.topic)
        most = max(most, len(running))
        if most == 3:
            enough.set()
        await enough.wait()
        await echo(run, message)
        running.discard(run.topic)

    async with working(broker, agent, concurrency=3):
        for number in range(9):
            await send(broker, f"chat:{number}", "m", "hello")
        for number in range(9):
            await until(finished(broker, f"chat:{number}"))
    assert most == 3


async def test_two_workers_share_the_work(broker: RedisBroker) -> None:
    async with working(broker, echo), working(broker, echo):
        for number in range(20):
            await send(broker, f"chat:{number % 5}", f"m{number}", str(number))
        for number in range(5):
            await until(finished(broker, f"chat:{number}", 4))
    for number in range(5):
        answers = texts(await mirror(broker, f"chat:{number}"))
        assert sorted(answers) == sorted(f"{said}{n}" for n in range(number, 20, 5) for said in ("", "You said "))


async def test_failing_agent_fails_its_run_only(broker: RedisBroker) -> None:
    async def agent(run: Run, message: Message) -> None:
        await run.delta("I try")
        if message.text == "bad":
            raise RuntimeError("no way")
        await echo(run, message)

    async with working(broker, agent):
        await send(broker, TOPIC, "m1", "bad")
        await send(broker, TOPIC, "m2", "good")
        await until(finished(broker, TOPIC, 2))
    state = await mirror(broker, TOPIC)
    assert [(run["status"], run["error"]) for run in state["runs"]] == [("failed", "no way"), ("completed", None)]
    assert texts(state) == ["bad", "I try", "good", "You said good"]


async def test_agent_that_fails_after_it_was_asked_to_stop_after_the_step_has_failed(broker: RedisBroker) -> None:
    async def agent(run: Run, _: Message) -> None:
        await act(broker, "cancel", topic=TOPIC, run=run.id, mode="after_step")

        async def heard() -> str | None:
            return run.stop_requested

        await until(heard)
        raise RuntimeError("the step did not work")

    async with working(broker, agent):
        await send(broker, TOPIC, "m1", "hello")
        await until(finished(broker, TOPIC))
    (run,) = (await mirror(broker, TOPIC))["runs"]
    assert (run["status"], run["error"]) == ("failed", "the step did not work")


async def test_agent_may_end_its_run_itself(broker: RedisBroker) -> None:
    async def agent(run: Run, _: Message) -> None:
        await run.cancel("not today")

    async with working(broker, agent):
        await send(broker, TOPIC, "m1", "hello")
        await until(finished(broker, TOPIC))
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "cancelled"


async def test_message_behind_a_run_of_somebody_else_waits_for_its_end(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, working(broker, echo):
        async with publisher.run(TOPIC, agent="other") as run:
            await send(broker, TOPIC, "m1", "hello")
            await asyncio.sleep(0.1)
            assert len((await mirror(broker, TOPIC))["queue"]) == 1
            await run.delta("x")
        await until(finished(broker, TOPIC, 2))
    assert texts(await mirror(broker, TOPIC)) == ["x", "hello", "You said hello"]


async def test_stopped_worker_lets_its_runs_finish(broker: RedisBroker) -> None:
    started = asyncio.Event()

    async def agent(run: Run, message: Message) -> None:
        started.set()
        await asyncio.sleep(0.1)
        await echo(run, message)

    async with working(broker, agent):
        await send(broker, TOPIC, "m1", "hello")
        await send(broker, TOPIC, "m2", "later")
        await started.wait()
    state = await mirror(broker, TOPIC)
    assert texts(state) == ["hello", "You said hello"]
    assert [waiting["id"] for waiting in state["queue"]] == ["m2"]


async def test_stopped_worker_cancels_what_does_not_finish(broker: RedisBroker) -> None:
    started = asyncio.Event()

    async def agent(run: Run, _: Message) -> None:
        await run.delta("thinking")
        started.set()
        await asyncio.Event().wait()

    async with working(broker, agent, grace=0.05):
        await send(broker, TOPIC, "m1", "hello")
        await started.wait()
    state = await mirror(broker, TOPIC)
    assert (state["runs"][0]["status"], state["runs"][0]["error"]) == ("cancelled", "the worker was stopped")
    assert texts(state) == ["hello", "thinking"]


async def test_cancelled_worker_ends_its_runs(broker: RedisBroker) -> None:
    started = asyncio.Event()

    async def agent(_run: Run, _message: Message) -> None:
        started.set()
        await asyncio.Event().wait()

    async with Publisher(broker=broker) as publisher:
        serving = asyncio.create_task(Worker(publisher, agent).serve())
        await send(broker, TOPIC, "m1", "hello")
        await started.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "cancelled"


async def test_topic_without_work_is_forgotten(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.worker._IDLE_DELAY", 0)
    async with working(broker, echo, lease=0.3):
        await send(broker, TOPIC, "m1", "hello")
        await until(finished(broker, TOPIC))

        async def forgotten() -> bool:
            return not await broker.due(until=broker.now() + 10**9)

        await until(forgotten)


async def test_worker_outlives_its_links(broker: RedisBroker, redis: Redis) -> None:
    async with working(broker, echo):
        await send(broker, TOPIC, "m1", "one")
        await until(finished(broker, TOPIC))
        await redis.client_kill_filter(_type="pubsub")
        await send(broker, TOPIC, "m2", "two")
        await until(finished(broker, TOPIC, 2))


@contextlib.asynccontextmanager
async def crashing(redis_url: str, key_prefix: str, stage: str, counted: Path) -> AsyncIterator[Process]:
    """A worker in a process of its own, which stops in mid-answer, in its tool or at the question whether to run it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.crashing_worker",
        redis_url,
        key_prefix,
        stage,
        str(counted),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("stage", ["answer", "tool", "approval"])
async def test_killed_worker_leaves_its_topic_to_the_next(
    broker: RedisBroker, redis_url: str, key_prefix: str, tmp_path: Path, stage: str
) -> None:
    """Report 65: no run stays running for ever, its text stays, and no tool runs twice."""
    counted = tmp_path / "counted"
    async with crashing(redis_url, key_prefix, stage, counted) as process:
        await send(broker, TOPIC, "m1", "hello")
        assert process.stdout is not None
        if stage == "approval":

            async def asked() -> bool:
                return bool((await mirror(broker, TOPIC))["approvals"])

            await until(asked)
        else:
            assert (await process.stdout.readline()).split() == [b"writing" if stage == "answer" else b"counted"]
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()

    requests: list[list[Message]] = []

    async def agent(run: Run, message: Message) -> None:
        requests.append(list(run.context.messages))
        await echo(run, message)

    async with working(broker, agent, lease=1.0):
        await until(finished(broker, TOPIC))
        state = await mirror(broker, TOPIC)
        assert state["runs"][0]["status"] == "lost"
        if stage == "approval":
            assert state["approvals"][0]["decision"] == "expired"
            late = await decide(broker, TOPIC, state["runs"][0]["run"], "c1", "approve")
            assert (late["won"], late["decision"]) == (False, "expired")
        await send(broker, TOPIC, "m2", "still there?")
        await until(finished(broker, TOPIC, 2))
    (request,) = requests
    assert [message.text for message in request if message.role == "assistant"] == ["Let me see"]
    asked_for = [call.id for message in request for call in message.tool_calls or ()]
    answered = [message.tool_call_id for message in request if message.role == "tool"]
    assert asked_for == answered == ([] if stage == "answer" else ["c1"])
    assert (counted.read_text() if counted.exists() else "") == ("x" if stage == "tool" else "")
    assert texts(await mirror(broker, TOPIC))[-1] == "You said still there?"


async def test_message_can_be_stopped_before_its_run_is_known(broker: RedisBroker) -> None:
    started = asyncio.Event()

    async def agent(run: Run, message: Message) -> None:
        if message.text != "stop me":
            await echo(run, message)
            return
        started.set()
        await asyncio.Event().wait()

    async with working(broker, agent):
        await send(broker, TOPIC, "m1", "stop me")
        await started.wait()
        await send(broker, TOPIC, "m2", "never")
        waiting = await act(broker, "cancel", topic=TOPIC, message="m2")
        taken = await act(broker, "cancel", topic=TOPIC, message="m1")
        assert (waiting["status"], taken["status"]) == ("withdrawn", "requested")
        await until(finished(broker, TOPIC))
        assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "cancelled"
        await send(broker, TOPIC, "m3", "and now?")
        await until(finished(broker, TOPIC, 2))
    assert texts(await mirror(broker, TOPIC)) == ["stop me", "and now?", "You said and now?"]


async def test_stop_at_any_moment_ends_the_run_once(broker: RedisBroker) -> None:
    async def agent(run: Run, message: Message) -> None:
        for number in range(30):
            await run.delta(f"{number} ")
            await asyncio.sleep(0.002)
        await echo(run, message)

    async with working(broker, agent):
        for number in range(20):
            await send(broker, TOPIC, f"m{number}", str(number))

            async def taken(number: int = number) -> bool:
                return len((await mirror(broker, TOPIC))["runs"]) > number

            await until(taken)
            await asyncio.sleep(0.005 * number)
            await act(broker, "cancel", topic=TOPIC, message=f"m{number}")
            await until(finished(broker, TOPIC, number + 1))
    ends: dict[str, list[str]] = {}
    last = {}
    for event in await events(broker, TOPIC):
        if event["type"] in {"agent_complete", "agent_cancelled", "agent_error", "agent_lost"}:
            ends.setdefault(event["run"], []).append(event["type"])
        if "run" in event and event["type"] != "cancel_requested":
            last[event["run"]] = event["type"]
    assert len(ends) == 20
    assert all(len(found) == 1 and found[0] == last[run] for run, found in ends.items())
    assert {end for found in ends.values() for end in found} <= {"agent_complete", "agent_cancelled"}

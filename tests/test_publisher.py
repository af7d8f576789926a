import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.codec import encode_json
from gateway.context.callbacks import emit
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.errors import (
    CommandError,
    ConditionError,
    ContextTooLargeError,
    EventRefusedError,
    HistoryConflictError,
    RunEndedError,
    TopicBusyError,
)
from gateway.note import Note, noted
from gateway.publisher import Publisher
from gateway.types import Position, Topic
from tests.publishing import SlowBroker, events, mirror, send, until

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


async def converse(publisher: Publisher, *texts: str) -> Context:
    async with publisher.run(TOPIC, agent="a") as run:
        for text in texts:
            await run.add_message(Message.assistant(text))
    return run.context


def texts(context: Context) -> list[str]:
    return [message.text for message in context.entries]


async def test_publisher_opens_and_closes_its_own_broker(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_REDIS_URL", redis_url)
    async with Publisher(key_prefix=key_prefix) as publisher:
        assert (await publisher.publish(TOPIC, {"type": "note"})).offset == 1


async def test_publisher_finds_the_gateway_of_this_machine(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GATEWAY_REDIS_URL", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with noted(Note(url="http://127.0.0.1:1", redis_url=redis_url, pid=os.getpid())):
        async with Publisher(key_prefix=key_prefix) as publisher:
            assert (await publisher.publish(TOPIC, {"type": "note"})).offset == 1


def test_choice_among_several_gateways_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("GATEWAY_REDIS_URL", raising=False)
    notes = [Note(url=f"http://127.0.0.1:{pid}", redis_url="redis://127.0.0.1:1", pid=pid) for pid in (1, 2)]
    with noted(notes[0]), noted(notes[1]):
        Publisher()
    (record,) = caplog.records
    assert "2 gateways run here" in record.getMessage()


async def test_closing_ends_runs_that_are_open(broker: RedisBroker) -> None:
    publisher = Publisher(broker=broker)
    run = await publisher.run(TOPIC, agent="a").__aenter__()
    await run.delta("half")
    await publisher.aclose()
    state = await mirror(broker, TOPIC)
    assert (state["runs"][0]["status"], state["runs"][0]["error"]) == ("cancelled", "its publisher was closed")
    assert state["open"] == []
    await run.__aexit__(None, None, None)


async def test_closing_passes_over_runs_that_were_never_entered(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher:
        publisher.run(TOPIC, agent="a")
    assert await events(broker, TOPIC) == []


@pytest.mark.parametrize("topic", ["", "two words", "ü", "x" * 201])
def test_run_refuses_a_topic_that_is_none(topic: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        Publisher().run(topic, agent="a")


@pytest.mark.parametrize("name", ["", "two words", "ü"])
def test_run_refuses_an_id_that_is_none(name: str) -> None:
    with pytest.raises(ValueError, match="id"):
        Publisher().run(TOPIC, agent="a", run_id=name)


async def test_ended_run_leaves_no_note_where_nothing_waits(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a"):
        assert await broker.due(until=broker.now() + 60_000) == [TOPIC]
    assert await broker.due(until=broker.now() + 60_000) == []


@pytest.mark.parametrize("early", [True, False])
async def test_ended_run_leaves_the_note_of_a_waiting_message(
    publisher: Publisher, broker: RedisBroker, *, early: bool
) -> None:
    if early:
        await send(broker, TOPIC, "m1", "hello")
    async with publisher.run(TOPIC, agent="a"):
        if not early:
            await send(broker, TOPIC, "m1", "hello")
    assert await broker.due(until=broker.now() + 60_000) == [TOPIC]


async def test_second_run_on_a_topic_is_refused(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a", run_id="r1"):
        with pytest.raises(TopicBusyError) as refused:
            await publisher.run(TOPIC, agent="b").__aenter__()
        assert (refused.value.topic, refused.value.holder) == (TOPIC, "r1")
    async with publisher.run(TOPIC, agent="b"):
        pass
    assert len((await mirror(broker, TOPIC))["runs"]) == 2


async def test_of_many_starts_at_once_one_wins(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher:
        runs = [publisher.run(TOPIC, agent="a") for _ in range(20)]
        entered = await asyncio.gather(*(run.__aenter__() for run in runs), return_exceptions=True)
        winners = [run for run in entered if not isinstance(run, BaseException)]
        assert len(winners) == 1
        assert all(isinstance(other, TopicBusyError) for other in entered if isinstance(other, BaseException))
        await winners[0].__aexit__(None, None, None)


async def test_run_id_that_has_ended_is_refused(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a", run_id="r1"):
        pass
    with pytest.raises(RunEndedError) as refused:
        await publisher.run(TOPIC, agent="a", run_id="r1").__aenter__()
    assert refused.value.run == "r1"


async def test_run_of_a_dead_process_is_declared_lost_and_the_topic_taken(broker: RedisBroker) -> None:
    slow = SlowBroker(broker)
    async with Publisher(broker=broker, lease=0.4) as publisher:
        await publisher.context(TOPIC)
        dead = await Publisher(broker=slow, lease=0.4).run(TOPIC, agent="a").__aenter__()
        await dead.delta("half an ans")
        await dead.flush()
        await dead._writer.sender.aclose()  # what a killed process does: nothing more

        async def taken() -> bool:
            try:
                async with publisher.run(TOPIC, agent="b"):
                    pass
            except TopicBusyError:
                return False
            return True

        await until(taken)
    state = await mirror(broker, TOPIC)
    assert [run["status"] for run in state["runs"]] == ["lost", "completed"]
    assert (state["open"], state["context"]["events"][0]["data"]["content"]) == ([], "half an ans")


async def test_nobody_is_declared_dead_by_a_process_that_is_new(
    broker: RedisBroker, redis_url: str, key_prefix: str
) -> None:
    dead = await Publisher(broker=broker, lease=2).run(TOPIC, agent="a").__aenter__()
    await dead._writer.sender.aclose()
    lapse = (await broker.standing(Topic(TOPIC))).deadline
    await until(lambda: asyncio.sleep(0, broker.now() > lapse))
    new = RedisBroker(redis_url, key_prefix=key_prefix)
    async with Publisher(broker=new) as publisher:
        with pytest.raises(TopicBusyError):
            await publisher.run(TOPIC, agent="b").__aenter__()
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "running"
    await new.aclose()


async def test_run_goes_on_with_the_topics_conversation(publisher: Publisher) -> None:
    await converse(publisher, "one")
    async with publisher.run(TOPIC, agent="a") as run:
        assert texts(run.context) == ["one"]
        await run.add_message(Message.assistant("two"))
    stored = await publisher.context(TOPIC)
    assert texts(stored) == ["one", "two"]
    assert [event.seq for event in stored.log.events()] == [0, 1]


async def test_run_answers_calls_that_were_left_without_a_result(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        calls = (ToolCall(id="c1", name="t", arguments="{}"), ToolCall(id="c2", name="t", arguments="{}"))
        await run.add_message(Message.assistant(None, tool_calls=calls))
        await run.tool_result("c1", "t", "done")
    results = [event for event in await events(broker, TOPIC) if event["type"] == "tool_result"]
    assert [result["tool_call_id"] for result in results] == ["c1", "c2"]
    assert "interrupted" in results[1]["content"]


async def test_context_that_the_topic_has_is_taken(publisher: Publisher) -> None:
    own = await converse(publisher, "one")
    async with publisher.run(TOPIC, agent="a", context=own.merge_deps({"db": object()})) as run:
        assert texts(run.context) == ["one"]
        assert "db" in run.context.deps


async def test_another_context_is_a_conflict(publisher: Publisher, broker: RedisBroker) -> None:
    await converse(publisher, "one")
    for other in (Context.new(messages=[Message.user("mine")]), Context.new()):
        with pytest.raises(HistoryConflictError):
            await publisher.run(TOPIC, agent="a", context=other).__aenter__()
    assert len((await mirror(broker, TOPIC))["runs"]) == 1


async def test_another_context_can_be_adopted(publisher: Publisher, broker: RedisBroker) -> None:
    await converse(publisher, "one", "two")
    mine = Context.new(
        messages=[Message.user("mine"), Message.assistant("yes")], system_prompt="Be brief", deps={"x": 1}
    )
    async with publisher.run(TOPIC, agent="a", context=mine, adopt=True) as run:
        assert texts(run.context) == ["mine", "yes"]
        assert (run.context.system_prompt, run.context.deps) == ("Be brief", {"x": 1})
        await run.add_message(Message.user("and"))
    stored = await publisher.context(TOPIC)
    assert texts(stored) == ["mine", "yes", "and"]
    assert stored.system_prompt == "Be brief"
    assert stored.log.next_seq == 6
    assert [event["content"] for event in await events(broker, TOPIC) if "content" in event][:2] == ["one", "two"]


async def test_reading_an_unwritten_topic_creates_nothing(publisher: Publisher, broker: RedisBroker) -> None:
    assert texts(await publisher.context(TOPIC)) == []
    history = await broker.read(Topic(TOPIC), Position(), limit=0)
    assert (history.epoch, history.top) == ("", 0)


async def test_long_topic_is_read_whole(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        for number in range(2500):
            await run.add_message(Message.user(str(number)))
    assert texts(await publisher.context(TOPIC)) == [str(number) for number in range(2500)]


async def test_trimmed_topic_goes_on_from_its_snapshot(publisher: Publisher, broker: RedisBroker) -> None:
    await converse(publisher, "one", "two")
    state = await publisher.read(Topic(TOPIC))
    size = (await broker.read(Topic(TOPIC), Position(), limit=0)).size
    await broker.trim(Topic(TOPIC), encode_json(state.mirror.snapshot()), position=state.position, size=size)
    assert len(await events(broker, TOPIC)) == 0
    async with publisher.run(TOPIC, agent="a") as run:
        assert texts(run.context) == ["one", "two"]
        await run.add_message(Message.assistant("three"))
    stored = await publisher.context(TOPIC)
    assert texts(stored) == ["one", "two", "three"]
    assert stored.usage == run.context.usage


async def test_publish_gives_the_position(publisher: Publisher, broker: RedisBroker) -> None:
    first = await publisher.publish(TOPIC, {"type": "note", "text": "a"})
    second = await publisher.publish(TOPIC, {"text": "no type"})
    assert (first.offset, second.offset, first.epoch) == (1, 2, second.epoch)
    assert [event.get("text") for event in await events(broker, TOPIC)] == ["a", "no type"]


async def test_publish_refuses_what_is_the_gateways_own(publisher: Publisher, broker: RedisBroker) -> None:
    for kind in ("user_message", "agent_lost", "snapshot"):
        with pytest.raises(CommandError):
            await publisher.publish(TOPIC, {"type": kind, "seq": 0})
    with pytest.raises(EventRefusedError):
        await publisher.publish(TOPIC, {"type": "note", "x": float("nan")})
    assert await events(broker, TOPIC) == []


async def test_bound_context_tells_its_topic(publisher: Publisher, broker: RedisBroker) -> None:
    context = Context.new(pubsub=publisher, pubsub_topic=TOPIC)  # type: ignore[arg-type]  # it only publishes
    await emit(context, "on_agent_start", {"by": Message.user("me")})
    (event,) = await events(broker, TOPIC)
    assert (event["type"], event["name"]) == ("notification", "agent_start")
    assert event["payload"]["by"]["content"] == "me"


async def test_publish_beside_a_run(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.delta("x")
        await publisher.publish(TOPIC, {"type": "note"})
        await run.delta("y")
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "completed"


async def test_parallel_publishes_are_all_stored(publisher: Publisher, broker: RedisBroker) -> None:
    positions = await asyncio.gather(*(publisher.publish(TOPIC, {"n": number}) for number in range(50)))
    assert sorted(position.offset for position in positions) == list(range(1, 51))
    assert sorted(event["n"] for event in await events(broker, TOPIC)) == list(range(50))


async def test_publish_to_a_full_history_is_refused(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=1000)
    async with Publisher(broker=broker) as publisher:
        with pytest.raises(ContextTooLargeError):
            await publisher.publish(TOPIC, {"text": "x" * 2000})
    await broker.aclose()


async def test_take_gives_the_oldest_message_to_a_run(publisher: Publisher, broker: RedisBroker) -> None:
    await send(broker, TOPIC, "m1", "first")
    await send(broker, TOPIC, "m2", [{"type": "text", "text": "second"}])
    for text in ("first", "second"):
        run = publisher.take(await publisher.read(Topic(TOPIC)), agent="a")
        assert run is not None
        async with run:
            last = run.context.entries[-1]
            assert (last.role, last.text, last.metadata) == ("user", text, {"by": "ann"})
    assert publisher.take(await publisher.read(Topic(TOPIC)), agent="a") is None
    taken = [event for event in await events(broker, TOPIC) if event["type"] in {"message_taken", "user_message"}]
    assert [event.get("id") or event["message"] for event in taken] == ["m1", "m1", "m2", "m2"]


async def test_message_that_was_edited_meanwhile_is_taken_as_it_is(
    publisher: Publisher, broker: RedisBroker, redis: Redis, key_prefix: str
) -> None:
    await send(broker, TOPIC, "m1", "hello")
    run = publisher.take(await publisher.read(Topic(TOPIC)), agent="a")
    await redis.hset(f"{key_prefix}:{{{TOPIC}}}", "m:m1", '"hello, edited"')
    assert run is not None
    async with run:
        assert run.context.entries[-1].text == "hello, edited"


async def test_message_is_taken_once(publisher: Publisher, broker: RedisBroker) -> None:
    await send(broker, TOPIC, "m1", "hello")
    state = await publisher.read(Topic(TOPIC))
    first, second = publisher.take(state, agent="a"), publisher.take(state, agent="b")
    assert first is not None
    assert second is not None
    async with first:
        pass
    with pytest.raises(ConditionError):
        await second.__aenter__()
    assert len((await mirror(broker, TOPIC))["runs"]) == 1

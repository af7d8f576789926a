import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from gateway.agent.loop import answer
from gateway.broker.redis import RedisBroker
from gateway.context.callbacks import emit
from gateway.context.context import Context
from gateway.context.log import EventLog
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool, ToolFailure
from gateway.context.usage import Usage
from gateway.errors import (
    CommandError,
    EventRefusedError,
)
from gateway.publisher import Publisher
from tests.agent.script import Script
from tests.publishing import SlowBroker, events, mirror, until

TOPIC = "chat:1"
SECRET = "sk-5d41402abc4b"  # what must not be seen


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


async def test_deltas_are_seen_before_the_message_and_replaced_by_it(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.thinking("let me see")
        await run.delta("Hel")
        await run.delta("lo")
        await run.tool_call_delta(index=0, id="c1", name="t", text='{"x"')
        await run.flush()
        (opened,) = (await mirror(broker, TOPIC))["open"]
        assert (opened["text"], opened["thinking"], opened["message"]) == ("Hello", "let me see", run.open_message)
        assert opened["tool_calls"] == [{"index": 0, "id": "c1", "name": "t", "text": '{"x"'}]
        await run.add_message(Message.assistant("Hello!"))
        assert run.open_message is None
        await run.flush()
        state = await mirror(broker, TOPIC)
    assert state["open"] == []
    (event,) = state["context"]["events"]
    assert (event["data"]["content"], event["message"]) == ("Hello!", opened["message"])
    assert event["data"]["metadata"]["thinking_ms"] >= 0


async def test_empty_deltas_are_not_published(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.delta("")
        await run.thinking("")
        await run.tool_call_delta(index=0)
        assert run.open_message is None
    assert await kinds(broker) == ["agent_start", "context", "agent_complete"]


@pytest.mark.parametrize(
    "piece",
    [
        {"index": -1, "text": "x"},
        {"index": 2**53, "text": "x"},
        {"index": 1.5, "text": "x"},
        {"index": 0, "id": "x" * 17_000},
        {"index": 0, "name": "\x00" * 3000},
    ],
)
async def test_piece_of_a_call_that_could_not_be_stored_is_refused_at_once(
    publisher: Publisher, broker: RedisBroker, piece: dict[str, Any]
) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        with pytest.raises(EventRefusedError, match="expected an i"):
            await run.tool_call_delta(**piece)
        await run.tool_call_delta(index=0, id="i" * 16_000, text="\x00" * 20_000)
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "completed"


async def test_characters_cut_in_two_arrive_whole(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        for unit in ("a", "\ud83d", "\ude00", "\ud83d"):
            await run.delta(unit)
            await run.flush()
        (opened,) = (await mirror(broker, TOPIC))["open"]
        assert opened["text"] == "a😀"
    (event,) = (await mirror(broker, TOPIC))["context"]["events"]
    assert event["data"]["content"] == "a😀\ufffd"


async def test_messages_in_the_run_and_on_the_topic_are_one_conversation(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.system("Be kind"))
        await run.add_message(Message.user("Hi"), message_id="q1")
        call = ToolCall(id="c1", name="t", arguments={"x": 1})
        await run.add_message(Message.assistant(None, tool_calls=(call,)))
        await run.tool_call("c1", "t", {"x": 1})
        await run.tool_result("c1", "t", {"y": 2})
        await run.add_message(Message(role="reviewer", content="fine"))
        await run.add_message(Message.assistant("Done"))
        own = run.context
    stored = await publisher.context(TOPIC)
    assert [message.to_dict() for message in stored.entries] == [message.to_dict() for message in own.entries]
    assert stored.entries[2].tool_calls == (ToolCall(id="c1", name="t", arguments='{"x":1}'),)
    for field in ("id", "agent_name", "needs_response", "iteration", "started_at", "usage"):
        assert getattr(stored, field) == getattr(own, field)
    assert list(stored.tool_calls) == [{"id": "c1", "name": "t", "arguments": '{"x":1}'}]


async def test_tool_call_returns_once_it_is_stored(broker: RedisBroker) -> None:
    slow = SlowBroker(broker)
    async with Publisher(broker=slow) as publisher, publisher.run(TOPIC, agent="a") as run:
        slow.hold()
        call = asyncio.create_task(run.tool_call("c1", "t", "{}"))
        await until(lambda: asyncio.sleep(0, len(slow.appends) == 2))
        assert not call.done()
        assert "tool_call" not in await kinds(broker)
        slow.release()
        await call
        assert "tool_call" in await kinds(broker)


async def test_tool_result_tells_how_it_went(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.tool_call("c1", "t", "{}")
        await run.tool_result("c1", "t", "no", error=True, metadata={"code": 7})
        await run.tool_result("c2", "t", "ok", duration_ms=12)
        await run.tool_result("c3", "t", "ok")
    results = [event for event in await events(broker, TOPIC) if event["type"] == "tool_result"]
    assert results[0]["metadata"].pop("duration_ms") >= 0
    assert [result["metadata"] for result in results] == [{"error": True, "code": 7}, {"duration_ms": 12}, {}]


async def test_usage_is_cumulative_for_each_call(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.usage({"input_tokens": 5, "total_tokens": 5}, call="one")
        await run.usage(Usage(input_tokens=5, output_tokens=2, total_tokens=7), call="one")
        await run.delta("x")
        await run.usage({"output_tokens": 1})
        await run.usage({"output_tokens": 3})
        assert run.context.usage == Usage(input_tokens=5, output_tokens=5, total_tokens=7)
    state = await mirror(broker, TOPIC)
    assert state["context"]["usage"] == run.context.usage.to_dict()
    assert len(state["runs"][0]["calls"]) == 2
    assert (await events(broker, TOPIC))[-1]["usage"] == run.context.usage.to_dict()


async def test_log_and_progress(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.log("warning", "look out", logger="x.y", fields={"a": 1})
        await run.progress(fraction=0.5, tool_call_id="c1")
        await run.progress(text="half")
    (line,) = (await mirror(broker, TOPIC))["log"]
    assert (line["level"], line["message"], line["logger"], line["fields"]) == ("warning", "look out", "x.y", {"a": 1})
    shown = [event for event in await events(broker, TOPIC) if event["type"] == "progress"]
    assert [(event.get("fraction"), event.get("text")) for event in shown] == [(0.5, None), (None, "half")]


async def test_log_event_is_logged_in_both_places(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.log_event("turn_start", {"turn": 1})
        await run.log_event("step_start")
        assert [event.type for event in run.context.log.events()] == ["turn_start", "step_start"]
        await run.flush()
        assert (await mirror(broker, TOPIC))["runs"][0]["iteration"] == 1
        with pytest.raises(EventRefusedError):
            await run.log_event("user_message", {})
        with pytest.raises(EventRefusedError, match="seq"):
            await run.log_event("turn_start", {"seq": 9})
        assert run.context.log.next_seq == 2


async def test_discard_drops_the_open_message_and_its_cost(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.delta("first try")
        await run.usage({"output_tokens": 9}, call="c")
        await run.discard(reason="overloaded", call="c")
        await run.delta("second")
        await run.flush()
        state = await mirror(broker, TOPIC)
        assert [opened["text"] for opened in state["open"]] == ["second"]
        assert state["context"]["usage"] == run.context.usage.to_dict() == Usage().to_dict()
    assert "usage" not in (await events(broker, TOPIC))[-1]


async def test_set_context_and_title(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.set_context(title="A chat", system_prompt="Be brief", iteration=2)
        await run.set_context(iteration=2)
        assert run.title == "A chat"
        with pytest.raises(TypeError, match="usage"):
            await run.set_context(usage=Usage())
    context = (await mirror(broker, TOPIC))["context"]
    assert (context["title"], context["system_prompt"], context["iteration"]) == ("A chat", "Be brief", 2)
    assert (await kinds(broker)).count("context") == 2


async def test_change_context_publishes_compaction(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        for number in range(4):
            await run.add_message(Message.user(f"message {number}"))
        await run.change_context(lambda context: context.replace_message_range(0, 2, Message.system("summary")))
        assert len(run.context.log) == 5
    assert [message.text for message in (await publisher.context(TOPIC)).entries] == ["summary", "message 3"]


async def test_change_context_publishes_usage(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.usage({"output_tokens": 9}, call="c")
        await run.change_context(lambda context: context.add_usage({"requests": 1, "output_tokens": 2}))
        await run.flush()
        assert run.context.usage == Usage(requests=1, output_tokens=11)
        assert (await mirror(broker, TOPIC))["context"]["usage"] == run.context.usage.to_dict()
        with pytest.raises(EventRefusedError, match="less"):
            await run.change_context(lambda context: msgspec.structs.replace(context, usage=Usage()))
    assert (await publisher.context(TOPIC)).usage == run.context.usage


@pytest.mark.parametrize(
    "change",
    [
        lambda _: Context.new(),
        lambda _: Context.new(messages=[Message.user("other"), Message.user("others")]),
        lambda context: msgspec.structs.replace(context, log=EventLog.restore([], next_seq=9)),
        lambda context: msgspec.structs.replace(context, tool_calls=()),
        lambda context: msgspec.structs.replace(context, tool_calls=({"id": "another"},)),
    ],
)
async def test_change_context_refuses_one_that_does_not_continue(publisher: Publisher, change: Any) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("mine"))
        await run.tool_call("c", "t", "{}")
        before = run.context
        with pytest.raises(EventRefusedError, match="continues"):
            await run.change_context(change)
        assert run.context is before
        await run.change_context(lambda context: context.add_message(Message.user("more")))
    assert [message.text for message in (await publisher.context(TOPIC)).entries][:1] == ["mine"]


async def test_secrets_of_deps_never_reach_the_topic(broker: RedisBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    slow = SlowBroker(broker)
    held = Context.new(deps={"db": [{"api_key": SECRET, "name": "orders"}]})

    def tool(context: Any, arguments: Any) -> Any:
        if arguments["how"] == "raise":
            raise ConnectionError(f"no answer for {SECRET}")
        return context if arguments["how"] == "return" else ToolFailure(reason={"key": SECRET})

    tools = [Tool(name="t", function=tool)]
    wanted = tuple(ToolCall(id=how, name="t", arguments=f'{{"how":"{how}"}}') for how in ("raise", "return", "give up"))
    async with Publisher(broker=slow) as publisher:
        with contextlib.suppress(PermissionError):
            async with publisher.run(TOPIC, agent="a", context=held) as run:
                bound = msgspec.structs.replace(run.context, pubsub=publisher, pubsub_topic=TOPIC)
                await run.log("info", f"using {SECRET}", fields={"with": [SECRET], "level": "x"})
                await run.emit({"type": "chart", "points": {"at": SECRET}})
                await run.add_message(Message.user("go", metadata={"context": run.context}))
                await run.change_context(lambda context: context.merge_deps({"password": SECRET + "2"}))
                await run.log("info", f"using {SECRET}2")
                await run.set_context(system_prompt="Be brief")
                await emit(bound, "on_agent_complete", {"context": bound})
                await emit(bound, "on_error", ValueError(SECRET))
                await answer(run, Script(Message.assistant(None, tool_calls=wanted), Message.assistant("ok")), tools)
                raise PermissionError(f"401 for {SECRET}2")
    stored = await events(broker, TOPIC)
    assert stored[-1]["error"] == "401 for [redacted]"
    results = {event["tool_call_id"]: event["content"] for event in stored if event["type"] == "tool_result"}
    assert "no answer for [redacted]" in results["raise"]
    assert [event["message"] for event in stored if event["type"] == "log"] == ["using [redacted]"] * 2
    assert all(SECRET.encode() not in entry.data for request in slow.appends for entry in request.entries)
    assert SECRET not in str(slow.appends)
    assert SECRET not in caplog.text
    assert SECRET not in str(await mirror(broker, TOPIC))


async def test_emit_carries_what_it_is_given(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.emit({"type": "chart", "points": [1, 2], "run": "somebody"})
        for kind, code in (("agent_complete", 103), ("two words", 107)):
            with pytest.raises(CommandError) as refused:
                await run.emit({"type": kind})
            assert refused.value.code == code
    (event,) = [event for event in await events(broker, TOPIC) if event["type"] == "chart"]
    assert (event["points"], event["run"]) == ([1, 2], run.id)


async def test_refused_event_changes_nothing(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("before"))
        with pytest.raises(EventRefusedError):
            await run.add_message(Message.assistant("x", reasoning_details=[{"__proto__": 1}]))
        await run.add_message(Message.user("after"))
        assert [message.text for message in run.context.entries] == ["before", "after"]
    assert [message.text for message in (await publisher.context(TOPIC)).entries] == ["before", "after"]
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "completed"

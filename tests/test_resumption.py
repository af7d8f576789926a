"""A run that goes on after its process was restarted."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.agent.loop import answer
from gateway.broker.redis import RedisBroker
from gateway.context.approval import Approve
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.errors import FencedError, RunEndedError
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import Topic
from tests.people import cancel, decide
from tests.publishing import events, mirror, send, until
from tests.servers import RedisServer

TOPIC = "chat:1"
CALL = ToolCall(id="c1", name="t", arguments='{"a":1}')


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def publisher(broker: RedisBroker) -> AsyncIterator[Publisher]:
    async with Publisher(broker=broker) as publisher:
        yield publisher


async def killed(publisher: Publisher, *said: Message, run_id: str = "r1") -> Run:
    """Begin a run, let it say something, and leave it as the death of its process would."""
    run = publisher.run(TOPIC, agent="a", run_id=run_id)
    await run.__aenter__()
    for message in said:
        await run.add_message(message)
    await run.flush()
    return run


async def die(publisher: Publisher, run: Run) -> str:
    """End what of a run lives in this process; gives its ticket."""
    run._stop.leave()
    await run._ear.aclose()
    await run._writer.sender.aclose()
    await publisher.hearing.forget(run._ear)
    publisher._runs.discard(run)
    return run.ticket


class Script:
    """A model that says what it was told to, message by message."""

    name = "script"

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        await run.add_message(self._messages.pop(0))
        return run.context.entries[-1]


def counted(ran: list[Any], **fields: Any) -> Tool:
    async def function(arguments: Mapping[str, Any]) -> str:
        ran.append(arguments)
        return "ok"

    return Tool(name="t", function=function, takes_context=False, **fields)


async def results(broker: RedisBroker) -> list[tuple[str, str]]:
    found = [event for event in await events(broker, TOPIC) if event["type"] == "tool_result"]
    return [(event["tool_call_id"], event["content"]) for event in found]


async def test_run_goes_on_with_what_it_was_writing_sealed(publisher: Publisher, broker: RedisBroker) -> None:
    first = await killed(publisher, Message.user("Hi"))
    await first.usage({"output_tokens": 2}, call="one")
    await first.delta("half an ans")
    await first.tool_call_delta(index=0, id="c1", name="t", text="{}")
    await first.flush()
    async with publisher.resume(await die(publisher, first)) as run:
        assert (run.id, run.topic, run.context.needs_response) == ("r1", TOPIC, True)
        await run.usage({"output_tokens": 3}, call="two")
        await run.add_message(Message.assistant("The whole answer"))
    state = await mirror(broker, TOPIC)
    assert [(entry["run"], entry["status"]) for entry in state["runs"]] == [("r1", "completed")]
    assert state["open"] == []
    sealed, interrupted, answered = state["context"]["events"][1:]
    assert (sealed["data"]["content"], sealed["data"]["metadata"]) == ("half an ans", {"interrupted": True})
    assert interrupted["data"]["tool_call_id"] == "c1"
    assert answered["data"]["content"] == "The whole answer"
    assert (await events(broker, TOPIC))[-1]["usage"]["output_tokens"] == 5


async def test_run_with_more_tool_calls_than_an_event_can_hold_goes_on(
    publisher: Publisher, broker: RedisBroker
) -> None:
    calls = [{"id": f"c{number}", "text": "x" * 40_000} for number in range(6)]
    first = await killed(publisher, Message.user("Hi"))
    for call in calls:
        await first.change_context(lambda context, call=call: context.add_tool_call(call))  # type: ignore[misc]
    await first.flush()
    async with publisher.resume(await die(publisher, first)) as run:
        assert len(run.context.tool_calls) == len(calls)
    state = await mirror(broker, TOPIC)
    assert state["runs"][0]["status"] == "completed"
    assert [call["id"] for call in state["context"]["tool_calls"]] == [call["id"] for call in calls]


async def test_pending_question_is_found_again(publisher: Publisher, broker: RedisBroker) -> None:
    ran: list[Any] = []
    first = await killed(publisher, Message.user("Hi"), Message.assistant(None, tool_calls=(CALL,)))
    asking = asyncio.create_task(first.approval(CALL))

    async def asked() -> bool:
        return bool((await mirror(broker, TOPIC))["approvals"])

    await until(asked)
    ticket = await die(publisher, first)
    asking.cancel()

    async with publisher.resume(ticket) as run:
        deciding = asyncio.create_task(decide(broker, TOPIC, run.id, "c1", "approve"))
        message = await answer(run, Script(Message.assistant("Done")), [counted(ran, requires_approval=True)])
        await deciding
    assert message is not None
    assert (ran, message.text) == ([{"a": 1}], "Done")
    assert [event["type"] for event in await events(broker, TOPIC)].count("approval_required") == 1
    assert await results(broker) == [("c1", "ok")]


async def test_answer_given_in_between_is_used(publisher: Publisher, broker: RedisBroker) -> None:
    ran: list[Any] = []
    first = await killed(publisher, Message.user("Hi"), Message.assistant(None, tool_calls=(CALL,)))
    asking = asyncio.create_task(first.approval(CALL))

    async def asked() -> bool:
        return bool((await mirror(broker, TOPIC))["approvals"])

    await until(asked)
    ticket = await die(publisher, first)
    asking.cancel()
    await decide(broker, TOPIC, "r1", "c1", "edit", arguments='{"a":2}')
    async with publisher.resume(ticket) as run:
        await answer(run, Script(Message.assistant("Done")), [counted(ran, requires_approval=True)])
    assert ran == [{"a": 2}]
    assert [event["arguments"] for event in await events(broker, TOPIC) if event["type"] == "tool_call"] == ['{"a":2}']


async def test_call_that_has_started_is_never_made_again(publisher: Publisher, broker: RedisBroker) -> None:
    ran: list[Any] = []
    other = ToolCall(id="c2", name="t", arguments='{"a":2}')
    ticket = ""
    first = await killed(publisher, Message.user("Hi"), Message.assistant(None, tool_calls=(CALL, other)))
    await first.log_event("turn_start")
    await first.tool_call("c1", "t", '{"a":1}')
    ticket = await die(publisher, first)
    async with publisher.resume(ticket) as again:
        await again.log_event("turn_start")  # and this one dies as well
        await again.flush()
        ticket = await die(publisher, again)
        async with publisher.resume(ticket) as run:
            await answer(run, Script(Message.assistant("Done")), [counted(ran)])
        again._writer = run._writer
    assert ran == [{"a": 2}]
    (first_id, first_text), second = await results(broker)
    assert (first_id, "interrupted" in first_text, second) == ("c1", True, ("c2", "ok"))


async def test_stop_asked_for_in_between_is_heard(publisher: Publisher, broker: RedisBroker) -> None:
    first = await killed(publisher, Message.user("Hi"))
    ticket = await die(publisher, first)
    await cancel(broker, TOPIC, "r1")
    await send(broker, TOPIC, "m1", "and then?")
    async with publisher.resume(ticket) as run:
        assert [message.id for message in run.inbox.waiting] == ["m1"]
        await asyncio.Event().wait()
    assert run.stop_requested == "stopped by ann"
    assert (await events(broker, TOPIC))[-1]["type"] == "agent_cancelled"


async def test_too_late_is_told(broker: RedisBroker) -> None:
    async with Publisher(broker=broker, lease=0.2) as publisher:
        first = await killed(publisher)
        ticket = await die(publisher, first)

        async def buried() -> bool:
            return await publisher.sweeper.bury(Topic(TOPIC), "r1") is None

        await until(buried)
        with pytest.raises(RunEndedError):
            await publisher.resume(ticket).__aenter__()
        with pytest.raises(FencedError):
            await publisher.resume(f"{TOPIC} never {'0' * 32}").__aenter__()


async def test_wrong_token_is_refused(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        topic, name, _ = run.ticket.split(" ")
        with pytest.raises(FencedError):
            await publisher.resume(f"{topic} {name} {'0' * 32}").__aenter__()


@pytest.mark.parametrize("ticket", ["", "chat:1", "chat:1 r", "chat:1 r ", "a b c d", "no{topic} r t"])
async def test_what_is_no_ticket_is_refused(publisher: Publisher, ticket: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        publisher.resume(ticket)


async def test_resumed_run_writes_everything_again_to_an_empty_broker(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "data") as server:
        broker = RedisBroker(server.url, timeout=1.0)
        async with Publisher(broker=broker) as publisher:
            first = await killed(publisher, Message.user("Hi"), Message.assistant(None, tool_calls=(CALL,)))
            await first.set_context(title="A chat")
            await first.usage({"output_tokens": 2}, call="one")
            asking = asyncio.create_task(first.approval(CALL))

            async def asked() -> bool:
                return bool((await mirror(broker, TOPIC))["approvals"])

            await until(asked)
            ticket = await die(publisher, first)
            asking.cancel()
            await decide(broker, TOPIC, "r1", "c1", "approve")
            async with publisher.resume(ticket) as run:
                with server.away():
                    pass
                await run.log("info", "still here")
                await run.flush()
                state = await mirror(broker, TOPIC)
                assert [(entry["run"], entry["status"]) for entry in state["runs"]] == [("r1", "running")]
                assert (state["context"]["title"], state["runs"][0]["usage"]["output_tokens"]) == ("A chat", 2)
                assert [event["type"] for event in state["context"]["events"]] == ["user_message", "assistant_message"]
                assert state["approvals"][0]["decision"] == "approve"
                assert await run.approval(CALL) == Approve()
        await broker.aclose()

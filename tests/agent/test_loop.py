import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from gateway.agent.loop import MAX_PARALLEL_TOOLS, MAX_RESULT_CHARACTERS, answer
from gateway.broker.port import Appended
from gateway.broker.redis import RedisBroker
from gateway.context.errors import MaxIterationsExceeded
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import ContextUpdate, Tool, ToolFailure, ToolResult
from gateway.errors import FencedError
from gateway.publisher import Publisher
from gateway.recorder import lost_event
from gateway.run import Run
from gateway.types import START, Topic
from tests.publishing import events, mirror, until

TOPIC = "chat:1"


class Script:
    """A model that says what it was told to, message by message."""

    name = "script"

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)
        self.offered: list[list[str]] = []

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        self.offered.append([tool.name for tool in tools])
        message = self._messages.pop(0)
        if message.text:
            await run.delta(message.text)
        await run.add_message(message)
        return run.context.entries[-1]


def calls(*wanted: tuple[str, str, Any]) -> Message:
    made = tuple(ToolCall(id=call_id, name=name, arguments=arguments) for call_id, name, arguments in wanted)
    return Message.assistant(None, tool_calls=made)


def tool(function: Any, **fields: Any) -> Tool:
    return Tool(name="t", function=function, takes_context=False, retries=0, **fields)


async def results(broker: RedisBroker) -> list[Mapping[str, Any]]:
    return [event for event in await events(broker, TOPIC) if event["type"] == "tool_result"]


async def test_answer_without_tools_is_one_step(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("Hi"))
        message = await answer(run, Script(Message.assistant("Hello")))
        assert message is not None
        assert message.text == "Hello"
    kinds = [event["type"] for event in await events(broker, TOPIC) if event["type"] != "context"]
    assert kinds == [
        "agent_start",
        "user_message",
        "turn_start",
        "step_start",
        "assistant_message",
        "step_end",
        "turn_end",
        "agent_complete",
    ]
    assert (await mirror(broker, TOPIC))["runs"][0]["iteration"] == 1


async def test_tools_really_run_and_their_results_go_back(publisher: Publisher, broker: RedisBroker) -> None:
    ran: list[Any] = []

    async def function(arguments: Mapping[str, Any]) -> Any:
        ran.append(arguments)
        return {"sum": arguments["a"] + 1}

    model = Script(calls(("c1", "t", {"a": 1}), ("c2", "t", '{"a": 2}')), Message.assistant("Done"))
    async with publisher.run(TOPIC, agent="a") as run:
        await answer(run, model, [tool(function)])
        said = [(message.role, message.text) for message in run.context.entries]
        assert run.context.iteration == 2
    assert sorted(ran, key=str) == [{"a": 1}, {"a": 2}]
    assert said[0] == ("assistant", "")
    assert sorted(said[1:3]) == [("tool", '{"sum":2}'), ("tool", '{"sum":3}')]
    assert said[3] == ("assistant", "Done")
    assert model.offered == [["t"], ["t"]]
    started = [event for event in await events(broker, TOPIC) if event["type"] == "tool_call"]
    assert [(event["id"], event["arguments"]) for event in started] == [("c1", '{"a":1}'), ("c2", '{"a": 2}')]


@pytest.mark.parametrize("arguments", ['{"a": 1', "[1]", '"x"', '{"a": "text"}', "{}", '{"a": 1} {"a": 2}', "null"])
async def test_tool_does_not_run_with_arguments_that_do_not_fit(
    publisher: Publisher, broker: RedisBroker, arguments: str
) -> None:
    ran: list[Any] = []
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    model = Script(calls(("c1", "t", arguments)), Message.assistant("Sorry"))
    async with publisher.run(TOPIC, agent="a") as run:
        await answer(run, model, [tool(ran.append, parameters=schema)])
    (result,) = await results(broker)
    assert result["metadata"] == {"error": True}
    assert '"integer"' in result["content"]
    assert ran == []
    assert "tool_call" not in {event["type"] for event in await events(broker, TOPIC)}


async def test_unknown_tool_is_answered(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await answer(run, Script(calls(("c1", "nope", "{}")), Message.assistant("Oh")), [tool(len)])
    (result,) = await results(broker)
    assert "nope" in result["content"]
    assert result["metadata"]["error"] is True


async def test_tool_that_fails_hangs_or_gives_up_is_answered(publisher: Publisher, broker: RedisBroker) -> None:
    async def function(arguments: Mapping[str, Any]) -> Any:
        if arguments["how"] == "hang":
            await asyncio.Event().wait()
        if arguments["how"] == "raise":
            raise RuntimeError("broken")
        return ToolFailure(reason="not today")

    wanted = [(how, "t", {"how": how}) for how in ("hang", "raise", "return")]
    async with publisher.run(TOPIC, agent="a") as run:
        await answer(run, Script(calls(*wanted), Message.assistant("Well")), [tool(function, timeout=0.05)])
    found = {result["tool_call_id"]: result for result in await results(broker)}
    assert all(result["metadata"]["error"] for result in found.values())
    for call, words in (("hang", "no result within"), ("raise", "broken"), ("return", "not today")):
        assert words in found[call]["content"]
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "completed"


async def test_huge_result_is_shortened(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await answer(run, Script(calls(("c1", "t", "{}")), Message.assistant("Ok")), [tool(lambda _: "\x01" * 10**6)])
    (result,) = await results(broker)
    assert MAX_RESULT_CHARACTERS < len(result["content"]) < MAX_RESULT_CHARACTERS + 100
    assert "left out" in result["content"]


async def test_calls_of_the_provider_itself_are_left_alone(publisher: Publisher, broker: RedisBroker) -> None:
    own = ToolCall(id="s1", name="t", arguments="{}", extra={"server": True})
    async with publisher.run(TOPIC, agent="a") as run:
        await run.tool_result("s1", "t", "by the provider")
        message = await answer(run, Script(Message.assistant("Found", tool_calls=(own,))), [tool(len)])
        assert message is not None
    assert [result["content"] for result in await results(broker)] == ["by the provider"]


async def test_tools_of_one_message_run_at_once_within_the_bound(publisher: Publisher) -> None:
    at_once = most = 0

    async def function(_: Mapping[str, Any]) -> str:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        return "ok"

    wanted = [(f"c{number}", "t", "{}") for number in range(MAX_PARALLEL_TOOLS * 2)]
    async with publisher.run(TOPIC, agent="a") as run:
        await answer(run, Script(calls(*wanted), Message.assistant("Ok")), [tool(function)])
    assert 1 < most <= MAX_PARALLEL_TOOLS


async def test_tool_may_change_the_context(publisher: Publisher, broker: RedisBroker) -> None:
    update = ContextUpdate().set("seen", 1).log_event("request_header", {"by": "t"})
    async with publisher.run(TOPIC, agent="a") as run:
        model = Script(calls(("c1", "t", "{}")), Message.assistant("Ok"))
        await answer(run, model, [tool(lambda _: ToolResult(value="ok", update=update))])
        assert run.context.deps == {"seen": 1}
    assert "request_header" in {event["type"] for event in await events(broker, TOPIC)}


async def test_model_that_never_ends_is_stopped(publisher: Publisher, broker: RedisBroker) -> None:
    model = Script(*(calls((f"c{number}", "t", "{}")) for number in range(9)))

    async def agent() -> None:
        async with publisher.run(TOPIC, agent="a", max_iterations=3) as run:
            await answer(run, model, [tool(lambda _: "again")])

    with pytest.raises(MaxIterationsExceeded):
        await agent()
    assert len(model.offered) == 3
    assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "failed"


async def test_cancellation_check_cancels_the_run(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.change_context(
            lambda context: msgspec.structs.replace(context, cancellation_check=lambda: "the user left")
        )
        assert await answer(run, Script(Message.assistant("never"))) is None
    state = await mirror(broker, TOPIC)
    assert (state["runs"][0]["status"], state["runs"][0]["error"]) == ("cancelled", "the user left")


async def test_no_tool_starts_in_a_run_that_was_replaced(broker: RedisBroker) -> None:
    ran: list[Any] = []

    class Slow(Script):
        async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
            message = await super().respond(run, tools)
            await run.flush()
            run._writer.sender._renew_at = float("inf")

            async def lost() -> bool:
                data = lost_event(run.id, at=broker.now())
                answer = await broker.declare_lost(Topic(TOPIC), run=run.id, data=data, position=START)
                return isinstance(answer, Appended)

            await until(lost)
            return message

    async with Publisher(broker=broker, lease=0.2) as publisher:

        async def agent() -> None:
            async with publisher.run(TOPIC, agent="a") as run:
                await answer(run, Slow(calls(("c1", "t", "{}"), ("c2", "t", "{}"))), [tool(ran.append)])

        with pytest.raises(FencedError):
            await agent()
    assert ran == []

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from gateway.agent.loop import answer
from gateway.agent.tool_calls import MAX_PARALLEL_TOOLS, MAX_RESULT_CHARACTERS
from gateway.broker.port import Appended
from gateway.broker.redis import RedisBroker
from gateway.context.errors import MaxIterationsExceeded
from gateway.context.hooks import HOOK_EVENTS, Allow, Deny, Hook, HookRegistry, Modify
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import ContextUpdate, Tool, ToolFailure, ToolResult
from gateway.errors import FencedError
from gateway.publisher import Publisher
from gateway.recorder import lost_event
from gateway.run import Run
from gateway.types import START, Topic
from tests.people import cancel, decide
from tests.publishing import events, mirror, send, until

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
        "request_header",
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


async def test_nothing_to_answer_makes_no_request(publisher: Publisher) -> None:
    model = Script()
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("Hi"))
        await run.add_message(Message.assistant("Hello"))
        message = await answer(run, model)
    assert message is not None
    assert (message.text, model.offered) == ("Hello", [])


async def test_tools_that_must_not_run_beside_others_run_alone_and_in_order(publisher: Publisher) -> None:
    running: list[str] = []
    seen: list[list[str]] = []

    async def function(arguments: Mapping[str, Any]) -> str:
        running.append(arguments["n"])
        seen.append(sorted(running))
        await asyncio.sleep(0.01)
        running.remove(arguments["n"])
        return "ok"

    tools = [
        Tool(name="together", function=function, takes_context=False),
        Tool(name="alone", function=function, takes_context=False, parallel=False),
    ]
    wanted = [("1", "together"), ("2", "together"), ("3", "alone"), ("4", "alone"), ("5", "together")]
    asked = calls(*((number, name, {"n": number}) for number, name in wanted))
    async with publisher.run(TOPIC, agent="a") as run:
        await answer(run, Script(asked, Message.assistant("Ok")), tools)
    assert seen == [["1"], ["1", "2"], ["3"], ["4"], ["5"]]


async def test_hooks_may_stop_a_call_and_change_arguments(publisher: Publisher, broker: RedisBroker) -> None:
    ran: list[Any] = []
    watched: list[Any] = []

    def before(_: str, facts: Mapping[str, Any]) -> Any:
        if facts["arguments"]["a"] == 1:
            return Deny(reason="not one")
        return Modify(changes={"arguments": {"a": facts["arguments"]["a"] * 10}})

    def after(_: str, facts: Mapping[str, Any]) -> Any:
        watched.append((facts["tool_call_id"], facts.get("result"), "error" in facts))
        return Allow()

    hooks = HookRegistry((Hook(event="pre_tool_use", handler=before), Hook(event="post_tool_use", handler=after)))
    model = Script(calls(("c1", "t", {"a": 1}), ("c2", "t", {"a": 2})), Message.assistant("Ok"))
    async with publisher.run(TOPIC, agent="a") as run:
        await run.change_context(lambda context: msgspec.structs.replace(context, hook_registry=hooks))
        await answer(run, model, [tool(lambda arguments: ran.append(arguments) or "done")])  # type: ignore[func-returns-value]  # None, then "done"
    assert ran == [{"a": 20}]
    assert sorted(watched) == [("c1", None, True), ("c2", "done", False)]
    found = {result["tool_call_id"]: result["content"] for result in await results(broker)}
    assert "not one" in found["c1"]
    (started,) = [event for event in await events(broker, TOPIC) if event["type"] == "tool_call"]
    assert (started["id"], started["arguments"]) == ("c2", '{"a":20}')


async def test_hooks_may_stop_a_request_and_leave_tools_out(publisher: Publisher, broker: RedisBroker) -> None:
    answers = [Modify(changes={"tools": ["u"]}), Deny(reason="too expensive")]
    hook = Hook(event="pre_request", handler=lambda *_: answers.pop(0))
    model = Script(calls(("c1", "u", {})), Message.assistant("never"))
    other = Tool(name="u", function=lambda _: "ok", takes_context=False)
    async with publisher.run(TOPIC, agent="a") as run:
        await run.change_context(lambda context: msgspec.structs.replace(context, hook_registry=HookRegistry((hook,))))
        assert await answer(run, model, [tool(len), other]) is None
    assert model.offered == [["u"]]
    assert (await mirror(broker, TOPIC))["runs"][0]["error"] == "too expensive"


async def test_hooks_see_the_turn(publisher: Publisher) -> None:
    seen: list[str] = []

    def handler(event: str, _: Any) -> Any:
        seen.append(event)
        return Allow()

    hooks = HookRegistry(tuple(Hook(event=event, handler=handler) for event in sorted(HOOK_EVENTS)))
    async with publisher.run(TOPIC, agent="a") as run:
        await run.change_context(lambda context: msgspec.structs.replace(context, hook_registry=hooks))
        await answer(run, Script(calls(("c1", "t", {})), Message.assistant("Ok")), [tool(lambda _: "ok")])
    request = ["pre_request", "post_response"]
    assert seen == ["session_start", *request, "pre_tool_use", "post_tool_use", *request, "session_end"]


async def test_tool_that_requires_approval_asks_people(publisher: Publisher, broker: RedisBroker) -> None:
    ran: list[Any] = []
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    careful = tool(lambda arguments: ran.append(arguments) or "sent", parameters=schema, requires_approval=True)  # type: ignore[func-returns-value]  # None, then "sent"
    decisions = {
        "yes": {"decision": "approve"},
        "no": {"decision": "reject", "reason": "not to him"},
        "other": {"decision": "edit", "arguments": '{"to":"eve"}'},
        "wrong": {"decision": "edit", "arguments": '{"to":7}'},
    }
    model = Script(calls(*((call, "t", '{"to": "bob"}') for call in decisions)), Message.assistant("Ok"))

    async def people(run: Run) -> None:
        async def asked() -> bool:
            return len((await mirror(broker, TOPIC))["approvals"]) == len(decisions)

        await until(asked)
        assert ran == []
        for call, more in decisions.items():
            assert (await decide(broker, TOPIC, run.id, call, **more))["won"]

    async with publisher.run(TOPIC, agent="a") as run:
        deciding = asyncio.create_task(people(run))
        await answer(run, model, [careful])
        await deciding
    assert sorted(map(str, ran)) == ["{'to': 'bob'}", "{'to': 'eve'}"]
    found = {result["tool_call_id"]: result for result in await results(broker)}
    assert (found["yes"]["content"], found["other"]["content"]) == ("sent", "sent")
    assert "not to him" in found["no"]["content"]
    assert "arguments.to" in found["wrong"]["content"]
    started = {event["id"]: event["arguments"] for event in await events(broker, TOPIC) if event["type"] == "tool_call"}
    assert started == {"yes": '{"to": "bob"}', "other": '{"to":"eve"}'}


async def test_stop_reaches_a_tool_and_a_silent_model(publisher: Publisher, broker: RedisBroker) -> None:
    async def hang(_: Any) -> None:
        await asyncio.Event().wait()

    class Silent(Script):
        async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
            await asyncio.Event().wait()
            raise AssertionError

    for model, sign in ((Script(calls(("c1", "t", {}))), "tool_call"), (Silent(), "request_header")):
        async with publisher.run(TOPIC, agent="a") as run:
            await run.add_message(Message.user("go"))
            working = asyncio.create_task(stop_once_there(broker, run, sign))
            await answer(run, model, [tool(hang, timeout=None)])
            raise AssertionError("not reached")
        await working
        assert run.stop_requested == "stopped by ann"
        assert (await events(broker, TOPIC))[-1]["type"] == "agent_cancelled"
    assert [result["tool_call_id"] for result in await results(broker)] == ["c1"]


async def stop_once_there(broker: RedisBroker, run: Run, sign: str) -> None:
    async def there() -> bool:
        found = await events(broker, TOPIC)
        return any(event["type"] == sign and event.get("run") == run.id for event in found)

    await until(there)
    await cancel(broker, TOPIC, run.id)


async def test_stop_after_the_step_lets_its_tools_finish(publisher: Publisher, broker: RedisBroker) -> None:
    async def function(_: Any) -> str:
        await cancel(broker, TOPIC, run.id, mode="after_step")

        async def heard() -> str | None:
            return run.stop_requested

        await until(heard)
        return "finished"

    run = publisher.run(TOPIC, agent="a")
    async with run:
        model = Script(calls(("c1", "t", {})), Message.assistant("never"))
        assert await answer(run, model, [tool(function)]) is None
    assert [result["content"] for result in await results(broker)] == ["finished"]
    end = (await events(broker, TOPIC))[-1]
    assert (end["type"], end["reason"], len(model.offered)) == ("agent_cancelled", "stopped by ann", 1)


async def test_waiting_messages_steer_the_loop(publisher: Publisher, broker: RedisBroker) -> None:
    async def function(_: Any) -> str:
        await send(broker, TOPIC, "m1", "rather in French")

        async def heard() -> bool:
            return bool(run.inbox.waiting)

        await until(heard)
        return "ok"

    run = publisher.run(TOPIC, agent="a")
    async with run:
        run.inbox.steers = True
        await run.add_message(Message.user("Hello"))
        await answer(run, Script(calls(("c1", "t", {})), Message.assistant("Bonjour")), [tool(function)])
        said = [(message.role, message.text) for message in run.context.entries]
    assert said == [
        ("user", "Hello"),
        ("assistant", ""),
        ("tool", "ok"),
        ("user", "rather in French"),
        ("assistant", "Bonjour"),
    ]
    assert (await mirror(broker, TOPIC))["queue"] == []


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

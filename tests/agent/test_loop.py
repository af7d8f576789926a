import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from gateway.agent.loop import answer
from gateway.broker.port import Appended
from gateway.broker.redis import RedisBroker
from gateway.context.errors import MaxIterationsExceeded
from gateway.context.hooks import HOOK_EVENTS, Allow, Deny, Hook, HookRegistry, Modify
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.errors import FencedError
from gateway.publisher import Publisher
from gateway.recorder import lost_event
from gateway.run import Run
from gateway.types import START, Topic
from tests.agent.script import TOPIC, Script, calls, results, tool
from tests.people import cancel
from tests.publishing import events, mirror, send, until


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


async def test_calls_of_the_provider_itself_are_left_alone(publisher: Publisher, broker: RedisBroker) -> None:
    own = ToolCall(id="s1", name="t", arguments="{}", extra={"server": True})
    async with publisher.run(TOPIC, agent="a") as run:
        await run.tool_result("s1", "t", "by the provider")
        message = await answer(run, Script(Message.assistant("Found", tool_calls=(own,))), [tool(len)])
        assert message is not None
    assert [result["content"] for result in await results(broker)] == ["by the provider"]


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

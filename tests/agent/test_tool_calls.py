"""The tool calls of one message, driven through the loop."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gateway.agent.loop import answer
from gateway.agent.tool_calls import MAX_PARALLEL_TOOLS, MAX_RESULT_CHARACTERS
from gateway.broker.redis import RedisBroker
from gateway.context.hooks import Allow, Deny, Hook, HookRegistry, Modify
from gateway.context.messages import Message
from gateway.context.tools import ContextUpdate, Tool, ToolFailure, ToolResult
from gateway.publisher import Publisher
from gateway.run import Run
from tests.agent.script import TOPIC, Script, calls, results, tool
from tests.people import cancel, decide
from tests.publishing import events, mirror, until


@pytest.mark.parametrize(
    "arguments",
    ['{"a": 1', "[1]", '"x"', '{"a": "text"}', "{}", "", '{"a": 1} {"a": 2}', "null", "[" * 100_000],
    ids=lambda text: text[:16] or "nothing",
)
async def test_tool_does_not_run_with_arguments_that_do_not_fit(
    publisher: Publisher, broker: RedisBroker, arguments: str
) -> None:
    """Report 56."""
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


@pytest.mark.parametrize("reason", ["length", "max_tokens", "max_output_tokens", "content_filter", "refusal"])
async def test_last_call_of_a_message_that_broke_off_does_not_run(
    publisher: Publisher, broker: RedisBroker, reason: str
) -> None:
    """Report 52: what came of it may parse, and be half of what the model wanted to say."""
    ran: list[Any] = []
    asked = calls(("c1", "t", '{"a":1}'), ("c2", "t", "{}"))
    model = Script(msgspec.structs.replace(asked, metadata={"finish_reason": reason}), Message.assistant("Ok"))
    async with publisher.run(TOPIC, agent="a") as run:
        await answer(run, model, [tool(ran.append)])
    assert ran == [{"a": 1}]
    found = {result["tool_call_id"]: result for result in await results(broker)}
    assert reason in found["c2"]["content"]
    assert found["c2"]["metadata"]["error"] is True


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


async def test_stop_does_not_wait_for_a_tool_that_blocks(publisher: Publisher, broker: RedisBroker) -> None:
    """Report 64: a call whose effect may still land is shown as started, unlike one that never will be."""
    started, release = threading.Event(), threading.Event()

    def block(_: Any) -> str:
        started.set()
        release.wait(30)
        return "too late"

    async def stop(run: Run) -> None:
        await until(lambda: asyncio.sleep(0, started.is_set()))
        await cancel(broker, TOPIC, run.id)

    async with publisher.run(TOPIC, agent="a") as run:
        stopping = asyncio.create_task(stop(run))
        await answer(run, Script(calls(("c1", "t", {}), ("c2", "t", {}))), [tool(block, parallel=False)])
        raise AssertionError("not reached")
    assert not release.is_set()
    release.set()
    await stopping
    found = {result["tool_call_id"]: result["content"] for result in await results(broker)}
    assert "interrupted" in found["c1"]
    assert "interrupted" in found["c2"]
    assert [event["id"] for event in await events(broker, TOPIC) if event["type"] == "tool_call"] == ["c1"]
    assert [call["id"] for call in (await mirror(broker, TOPIC))["context"]["tool_calls"]] == ["c1"]
    assert (await events(broker, TOPIC))[-1]["type"] == "agent_cancelled"

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from gateway.adapters.consuming import consume
from gateway.adapters.pydantic_ai_approvals import approvals
from gateway.context.approval import Approve, Decision, Edit, Reject
from gateway.context.errors import ExecutionCancelled
from tests.adapters.sink import RecordingSink

Deltas = list[Any]


def scripted(*answers: Deltas) -> FunctionModel:
    """Make a model that gives one answer after another."""
    left = list(answers)

    async def stream(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[Any]:
        for delta in left.pop(0):
            yield delta

    return FunctionModel(stream_function=stream)


def called(name: str, *pieces: str, id: str = "c1", index: int = 0) -> Deltas:
    first = {index: DeltaToolCall(name=name, json_args=pieces[0], tool_call_id=id)}
    return [first, *({index: DeltaToolCall(json_args=piece)} for piece in pieces[1:])]


async def test_thinking_text_calls_results_and_usage() -> None:
    thinking = [{0: DeltaThinkingPart(content="hm ")}, {0: DeltaThinkingPart(content="so", signature="sig")}]
    agent = Agent(scripted([*thinking, "Let ", "me.", *called("add", '{"a":1', ',"b":2}', index=2)], ["It is 3."]))

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    sink = RecordingSink()
    last = await consume(sink, agent.run_stream_events("1 + 2?"), adapter=None)
    first, second = sink.messages
    assert (first[0].text, first[0].thinking) == (first[1], first[2]) == ("Let me.", "hm so")
    assert [(call.id, call.name, call.arguments) for call in first[0].tool_calls or ()] == [
        ("c1", "add", '{"a":1,"b":2}')
    ]
    assert first[3] == ['{"a":1,"b":2}']
    assert first[0].reasoning_details
    assert first[0].reasoning_details[0]["signature"] == "sig"
    assert sink.ran == [("c1", "add", '{"a":1,"b":2}', False)]
    assert sink.results == [("c1", "add", "3", False)]
    assert sink.order == ["message", "call", "result", "message"]
    assert last is second[0]
    assert second[0].text == "It is 3."
    assert [usage.tool_calls for usage in sink.usages.values()] == [1, 0]
    assert all(usage.output_tokens > 0 for usage in sink.usages.values())


async def test_usage_is_what_the_framework_counts() -> None:
    agent = Agent(TestModel(custom_output_text="Hello there."))
    sink = RecordingSink()
    async with agent.run_stream_events("Hi") as stream:
        await consume(sink, stream, adapter=None)
        assert stream.result is not None
        counted = stream.result.usage
    (usage,) = sink.usages.values()
    assert (usage.input_tokens, usage.output_tokens) == (counted.input_tokens, counted.output_tokens)
    assert sink.messages[0][0].text == "Hello there."


async def test_answer_that_is_refused_and_given_again_is_two_messages() -> None:
    agent = Agent(scripted(["bad"], ["good"]))

    @agent.output_validator
    def check(output: str) -> str:
        if output == "bad":
            raise ModelRetry("better")
        return output

    sink = RecordingSink()
    await consume(sink, agent.run_stream_events("Go."), adapter=None)
    assert [message.text for message, *_ in sink.messages] == ["bad", "good"]


async def test_tool_that_wants_another_try_is_an_error() -> None:
    agent = Agent(scripted(called("look", "{}"), ["No."]))

    @agent.tool_plain
    def look() -> str:
        raise ModelRetry("where?")

    sink = RecordingSink()
    await consume(sink, agent.run_stream_events("Look."), adapter=None)
    assert [(call, error) for call, _, _, error in sink.results] == [("c1", True)]
    assert "where?" in sink.results[0][2]


@pytest.mark.parametrize(
    ("decision", "deployed", "told"),
    [
        (Approve(), ["prod"], "deployed prod"),
        (Edit(arguments={"to": "staging"}), ["staging"], "deployed staging"),
        (Reject(reason="not on a Friday"), [], "not on a Friday"),
    ],
)
async def test_people_decide(decision: Decision, deployed: list[str], told: str) -> None:
    agent = Agent(scripted(called("deploy", '{"to":"prod"}'), ["Done."]))
    ran: list[str] = []

    @agent.tool_plain(requires_approval=True)
    def deploy(to: str) -> str:
        ran.append(to)
        return f"deployed {to}"

    sink = RecordingSink()
    sink.decisions = [decision]
    await consume(sink, agent.run_stream_events("Deploy.", capabilities=[approvals(sink)]), adapter=None)
    assert [(call.id, call.name, call.arguments) for call in sink.asked] == [("c1", "deploy", '{"to":"prod"}')]
    assert ran == deployed
    assert sink.results[0][2] == told
    assert sink.messages[-1][0].text == "Done."


async def test_stop_after_the_step_ends_the_agent() -> None:
    agent = Agent(scripted(called("look", "{}"), ["never"]))
    sink = RecordingSink()

    @agent.tool_plain
    def look() -> str:
        sink.stopped = "stopped by ann"
        return "seen"

    with pytest.raises(ExecutionCancelled, match="stopped by ann"):
        await consume(sink, agent.run_stream_events("Look."), adapter=None)
    assert sink.order == ["message", "call", "result"]


async def test_error_of_the_agent_is_the_callers() -> None:
    agent = Agent(scripted(called("look", "{}")))

    @agent.tool_plain
    def look() -> str:
        raise RuntimeError("broken")

    sink = RecordingSink()
    with pytest.raises(RuntimeError, match="broken"):
        await consume(sink, agent.run_stream_events("Look."), adapter=None)
    assert sink.ran == [("c1", "look", "{}", False)]

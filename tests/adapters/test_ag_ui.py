from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui import core

from gateway.adapters.ag_ui import EVENT_TYPES
from gateway.adapters.consuming import consume
from gateway.errors import ProviderError
from tests.adapters.sink import RecordingSink


async def through(*events: Any) -> RecordingSink:
    async def source() -> AsyncIterator[Any]:
        for event in events:
            yield event

    sink = RecordingSink()
    await consume(sink, source(), adapter=None)
    return sink


STARTED = core.RunStartedEvent(thread_id="t", run_id="r")
FINISHED = core.RunFinishedEvent(thread_id="t", run_id="r")


def text(message: str, *pieces: str, role: Any = "assistant", **rest: Any) -> list[core.BaseEvent]:
    return [
        core.TextMessageStartEvent(message_id=message, role=role, **rest),
        *(core.TextMessageContentEvent(message_id=message, delta=piece, **rest) for piece in pieces),
        core.TextMessageEndEvent(message_id=message, **rest),
    ]


def call(id: str, name: str, *pieces: str) -> list[core.BaseEvent]:
    return [
        core.ToolCallStartEvent(tool_call_id=id, tool_call_name=name),
        *(core.ToolCallArgsEvent(tool_call_id=id, delta=piece) for piece in pieces),
        core.ToolCallEndEvent(tool_call_id=id),
    ]


async def test_message_with_thinking_calls_and_results() -> None:
    sink = await through(
        STARTED,
        core.ReasoningStartEvent(message_id="x"),
        core.ReasoningMessageContentEvent(message_id="x", delta="hm"),
        *text("m1", "Let ", "me."),
        *call("c1", "look", '{"at":', "3}"),
        core.ToolCallResultEvent(message_id="m2", tool_call_id="c1", content="seen"),
        *text("m3", "I have."),
        FINISHED,
    )
    first, second = sink.messages
    assert (first[0].text, first[0].thinking) == (first[1], first[2]) == ("Let me.", "hm")
    assert [(one.id, one.name, one.arguments) for one in first[0].tool_calls or ()] == [("c1", "look", '{"at":3}')]
    assert second[0].text == "I have."
    assert sink.order == ["message", "call", "result", "message"]
    assert sink.results == [("c1", "look", "seen", False)]


async def test_maps_are_read_like_models() -> None:
    models = [STARTED, *text("m1", "Hi"), FINISHED]
    maps = [event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in models]
    assert (await through(*maps)).last()["content"] == (await through(*models)).last()["content"] == "Hi"


async def test_chunks_are_read_like_their_parts() -> None:
    sink = await through(
        core.TextMessageChunkEvent(message_id="m1", role="assistant", delta="Hel"),
        core.TextMessageChunkEvent(message_id="m1", delta="lo"),
        core.ToolCallChunkEvent(tool_call_id="c1", tool_call_name="look", delta="{"),
        core.ToolCallChunkEvent(tool_call_id="c1", delta="}"),
        core.TextMessageChunkEvent(message_id="m2", role="assistant", delta="Bye"),
    )
    assert [message.text for message, *_ in sink.messages] == ["Hello", "Bye"]
    assert [one.arguments for one in sink.messages[0][0].tool_calls or ()] == ["{}"]


async def test_person_is_no_assistant() -> None:
    sink = await through(STARTED, *text("q", "Hi?", role="user"), *text("m1", "Hi."), FINISHED)
    assert [(message.role, message.text) for message, *_ in sink.messages] == [("user", "Hi?"), ("assistant", "Hi.")]


async def test_steps_are_bookkeeping() -> None:
    step = core.StepStartedEvent(step_name="plan"), core.StepFinishedEvent(step_name="plan")
    sink = await through(STARTED, *step, FINISHED)
    assert sink.logged == [("step_start", {"name": "plan"}), ("step_end", {"name": "plan"})]


async def test_state_custom_and_unknown_events_are_kept() -> None:
    sink = await through(
        core.StateSnapshotEvent(snapshot={"a": 1}),
        core.CustomEvent(name="x", value=[1]),
        {"type": "A_NEW_EVENT", "it": 2},
    )
    assert [(event["type"], event["item"]) for event in sink.emitted] == [
        ("ag_ui.state_snapshot", {"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}}),
        ("ag_ui.custom", {"type": "CUSTOM", "name": "x", "value": [1]}),
        ("ag_ui.a_new_event", {"type": "A_NEW_EVENT", "it": 2}),
    ]


async def test_what_is_too_large_for_an_event_is_named() -> None:
    sink = await through(core.StateSnapshotEvent(snapshot={"a": "x" * 200_000}))
    assert sink.emitted[0].keys() == {"type", "left_out"}


async def test_sub_agents_have_runs_of_their_own() -> None:
    sink = await through(
        STARTED,
        core.SubagentStartedEvent(subagent_run_id="s", name="scout"),
        *text("m1", "Quiet.", subagent_run_id="s"),
        core.SubagentFinishedEvent(subagent_run_id="s"),
        core.SubagentStartedEvent(subagent_run_id="z", name="digger"),
        core.SubagentErrorEvent(subagent_run_id="z", message="rock"),
        *text("m2", "It is quiet."),
        FINISHED,
    )
    assert [message.text for message, *_ in sink.messages] == ["It is quiet."]
    assert [(name, [message.text for message, *_ in child.messages]) for name, child in sink.children] == [
        ("scout", ["Quiet."]),
        ("digger", []),
    ]
    assert [repr(error) for error in sink.ends] == ["None", "ProviderError('rock', '')"]


async def test_usage_of_the_run() -> None:
    usage = [core.TokenUsage(input_tokens=5, output_tokens=2, cached_input_tokens=1)]
    sink = await through(*text("m1", "x"), core.RunFinishedEvent(thread_id="t", run_id="r", usage=usage))
    (counters,) = sink.usages.values()
    assert (counters.input_tokens, counters.output_tokens, counters.cache_read_input_tokens) == (5, 2, 1)


async def test_error_of_the_run() -> None:
    with pytest.raises(ProviderError, match="busy: no"):
        await through(STARTED, core.RunErrorEvent(message="no", code="busy"))


def test_every_type_of_the_package_is_recognised() -> None:
    assert {kind.value for kind in core.EventType} <= EVENT_TYPES

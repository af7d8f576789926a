"""The fold of a summary."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.codec import encode_event, encode_json
from gateway.event_types import END_TYPES
from gateway.mirror import Mirror
from gateway.summary import MAX_ARGUMENTS, MAX_LISTED, Summary
from gateway.types import Publication
from tests.event_strategies import events, sensible_events

EPOCH = "aaaaaaaa"


def fold(summary: Summary, sequence: list[dict[str, Any]]) -> None:
    for event in sequence:
        kind = event.get("type")
        summary.take(kind if isinstance(kind, str) else "", encode_json(event), summary.offset + 1)


def mirrored(sequence: list[dict[str, Any]]) -> Mirror:
    mirror = Mirror("t", EPOCH, 0)
    for offset, event in enumerate(sequence, 1):
        mirror.apply(Publication(offset=offset, data=json.loads(encode_event(event))))
    return mirror


def state(sequence: list[dict[str, Any]]) -> dict[str, Any]:
    summary = Summary(Mirror("t", EPOCH, 0))
    fold(summary, sequence)
    return summary.state(0)


def start(run: str = "r", **fields: Any) -> dict[str, Any]:
    return {"type": "agent_start", "run": run, "agent": "a", "model": "m", "at": 10, **fields}


def logged(kind: str, seq: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "run": "r", "seq": seq, "time": "2026-01-01T00:00:00.000000Z", "metadata": {}, **fields}


@settings(deadline=None)
@given(sensible_events(), st.data())
def test_summary_is_the_same_wherever_it_began(sequence: list[dict[str, Any]], data: st.DataObject) -> None:
    # A message that was replaced or cleared is in no mirror any more, but may have been the first.
    sequence = [event for event in sequence if event["type"] != "cleared" and "surface_op" not in event]
    cut = data.draw(st.integers(0, len(sequence)))
    summary = Summary(mirrored(sequence[:cut]))
    fold(summary, sequence[cut:])
    expected, got = Summary(mirrored(sequence)).state(0), summary.state(0)
    for found in (expected, got):
        # A mirror keeps when a call was logged, an event when it was published.
        found["tools"] = [(tool["id"], tool["name"]) for tool in found["tools"]]
    assert got == expected


@settings(deadline=None)
@given(events())
def test_any_sequence_has_a_summary(sequence: list[dict[str, Any]]) -> None:
    found = state(sequence)
    assert found["offset"] == len(sequence)
    json.dumps(found)


def test_latest_run_is_told_of() -> None:
    found = state([start("one"), {"type": "agent_lost", "run": "one", "at": 20}, start("two", at=30)])
    assert (found["run"], found["state"], found["started_at"], found["ended_at"]) == ("two", "running", 30, None)


def test_sub_agent_with_a_topic_of_its_own_is_no_run_of_this_one() -> None:
    found = state([start("one"), start("sub", parent="one", topic="t/sub"), {"type": "agent_complete", "run": "sub"}])
    assert (found["run"], found["state"]) == ("one", "running")


def test_phases_of_a_step() -> None:
    sequence = [start(), logged("step_start", 0)]
    phases = [state(sequence)["phase"]]
    more: list[dict[str, Any]] = [
        {"type": "agent_thinking", "run": "r", "message": "m", "text": "hm"},
        {"type": "agent_delta", "run": "r", "message": "m", "text": "so"},
        logged("assistant_message", 1, message="m", content="so"),
        {"type": "approval_required", "run": "r", "tool_call_id": "c", "name": "rm", "arguments": "{}", "at": 5},
        {"type": "approval_decided", "run": "r", "tool_call_id": "c", "decision": "approve"},
        logged("tool_call", 2, id="c", name="rm", arguments="{}", at=7),
        logged("tool_result", 3, tool_call_id="c", content="x", metadata={"error": True}),
        {"type": "cancel_requested", "run": "r", "by": "me", "mode": "now"},
        {"type": "agent_cancelled", "run": "r", "reason": "asked", "at": 9},
    ]
    tools, approvals = [], []
    for event in more:
        sequence.append(event)
        found = state(sequence)
        phases.append(found["phase"])
        tools += found["tools"]
        approvals += found["approvals"]
    assert phases == [
        "waiting",
        "thinking",
        "writing",
        "waiting",
        "approval",
        "waiting",
        "tool",
        "waiting",
        "waiting",
        None,
    ]
    assert tools == [{"id": "c", "name": "rm", "started_at": 7}]
    assert approvals == [
        {
            "run": "r",
            "tool_call_id": "c",
            "name": "rm",
            "arguments": "{}",
            "requested_at": 5,
            "expires_at": None,
        }
    ]
    assert (found["state"], found["error"], found["errors"], found["step"]) == ("cancelled", "asked", 1, 1)


def test_title_is_the_agents_word_else_the_first_line_of_a_person() -> None:
    asked = logged("user_message", 0, content=[{"type": "image"}, {"type": "text", "text": "\n Tidy up \nplease"}])
    assert state([start(), asked])["title"] == "Tidy up"
    assert state([start(), asked, {"type": "context", "title": "Tidying"}])["title"] == "Tidying"


def test_queue_and_usage_are_counted() -> None:
    waiting = [{"type": "message_queued", "id": name, "content": "x"} for name in "abc"]
    usage = [{"type": "usage", "run": "r", "call": "k", "input_tokens": 5, "output_tokens": n} for n in (1, 9)]
    found = state([start(), *waiting, {"type": "message_taken", "id": "a"}, *usage])
    assert found["queue"] == 2
    assert found["tokens"] == {"input": 5, "output": 9}


def test_long_lists_and_texts_are_cut() -> None:
    asked = [
        {"type": "approval_required", "run": "r", "tool_call_id": f"c{n}", "arguments": "x" * 5000} for n in range(50)
    ]
    found = state([start(), *asked, {"type": "context", "title": "t" * 5000}])
    assert len(found["approvals"]) == MAX_LISTED
    assert len(found["approvals"][0]["arguments"]) == MAX_ARGUMENTS
    assert len(found["title"]) == 300


def test_rates_are_of_the_last_second() -> None:
    summary = Summary(Mirror("t", EPOCH, 0))
    summary.count(10.0, events=4, characters=40)
    summary.count(10.5, events=2, characters=0)
    assert (summary.state(10.6)["events_per_second"], summary.state(10.6)["tokens_per_second"]) == (6, 10)
    assert (summary.state(11.2)["events_per_second"], summary.settled(11.2)) == (2, False)
    assert summary.settled(11.6)
    assert summary.state(11.6)["events_per_second"] == 0


def test_every_end_is_one() -> None:
    for kind in END_TYPES:
        found = state([start(), {"type": kind, "run": "r", "at": 3}, logged("step_start", 0)])
        assert (found["ended_at"], found["step"], found["phase"]) == (3, 0, None)

"""The mirror on every vector, and what only Python callers can see of it."""

import copy
import json
import tracemalloc
from typing import Any

import pytest

from gateway.errors import SnapshotError
from gateway.mirror import MAX_LOG_LINES, Mirror, merge
from gateway.types import Position, Publication
from tests.vectors_reader import canonical, complete, empty_state, load_vectors, publications


def _delta(offset: int, text: str = "a", message: str = "m") -> Publication:
    return Publication(offset=offset, data={"type": "agent_delta", "message": message, "text": text})


def _begun(vector: dict[str, Any]) -> tuple[Mirror, dict[str, Any]]:
    """Make the mirror that a vector begins with, and give its state as the vector has it."""
    if "snapshot" in vector:
        return Mirror.restore(vector["snapshot"]), empty_state()
    if "given" not in vector:
        return Mirror(), empty_state()
    given = {"topic": "", "epoch": "", "offset": 0, **vector["given"]}
    given["mirror"] = complete(given.get("mirror", {}), empty_state())
    return Mirror.restore(given), given["mirror"]


# vectors


@pytest.mark.parametrize("vector", load_vectors(merging=False), ids=lambda vector: vector["id"])
def test_apply_vector(vector: dict[str, Any]) -> None:
    then = vector["then"]
    if then.get("refused"):
        with pytest.raises(SnapshotError):
            Mirror.restore(vector["snapshot"])
        return
    mirror, base = _begun(vector)
    when = publications(vector, after=mirror.offset)
    untouched = copy.deepcopy(when)
    results = [mirror.apply(publication) for publication in when]
    expected = complete(then.get("mirror", {}), base)
    assert canonical(mirror.state()) == canonical(expected)
    assert results == then.get("results", ["applied"] * len(when))
    assert mirror.offset == then.get("offset", mirror.offset)
    if "messages" in then:
        assert canonical(mirror.messages()) == canonical(then["messages"])
    assert when == untouched
    for publication, result in zip(when, results, strict=True):
        if result == "applied":
            assert mirror.apply(publication) == "repeated"
    assert canonical(mirror.state()) == canonical(expected)
    stored = json.dumps(mirror.snapshot())
    assert Mirror.restore(json.loads(stored)).snapshot() == mirror.snapshot()


# apply


def test_apply_tells_what_it_did_and_where_it_stands() -> None:
    mirror = Mirror("chat:1", "abcdefgh")
    assert mirror.apply(_delta(1)) == "applied"
    assert mirror.apply(_delta(3)) == "hole"
    assert mirror.apply(_delta(1)) == "repeated"
    assert mirror.position == Position(epoch="abcdefgh", offset=1)
    mirror.resume("hgfedcba")
    assert mirror.position == Position(epoch="hgfedcba", offset=1)
    assert mirror.topic == "chat:1"


def test_apply_does_not_change_the_event() -> None:
    mirror = Mirror()
    items: list[Any] = ["a"]
    first = {"type": "context", "tool_calls": {"from": 0, "items": items}}
    mirror.fold(first)
    mirror.fold({"type": "context", "tool_calls": {"from": 1, "items": ["b"]}})
    assert items == ["a"]
    assert mirror.state()["context"]["tool_calls"] == ["a", "b"]


# fold


@pytest.mark.parametrize("junk", [None, [], "agent_start", 1, True])
def test_fold_what_is_no_object(junk: Any) -> None:
    mirror = Mirror()
    mirror.fold(junk)
    assert mirror.state() == empty_state()


def test_fold_long_chain_of_runs_ends_all() -> None:
    mirror = Mirror()
    for number in range(3000):
        mirror.fold({"type": "agent_start", "run": f"r{number}", "parent": f"r{number - 1}"})
    mirror.fold({"type": "agent_complete", "run": "r0", "at": 1})
    assert {run["status"] for run in mirror.state()["runs"]} == {"lost"}


def test_fold_deep_value_is_carried() -> None:
    value: Any = "deep"
    for _ in range(5000):
        value = [value]
    mirror = Mirror()
    for event in ({"type": "user_message", "seq": 0, "content": value}, {"type": "context", "title": value}):
        mirror.fold(event)
    assert mirror.state()["context"]["title"] is value


# snapshot


def test_snapshot_stays_as_it_was() -> None:
    mirror = Mirror("t", "abcdefgh")
    before: list[dict[str, Any]] = [
        {"type": "agent_start", "run": "r"},
        {"type": "agent_delta", "run": "r", "message": "m", "text": "a"},
        {"type": "tool_call_delta", "run": "r", "message": "m", "index": 0, "text": "{"},
        {"type": "usage", "run": "r", "call": "k", "requests": 1},
        {"type": "approval_required", "run": "r", "tool_call_id": "t"},
        {"type": "message_queued", "id": "q", "content": "a"},
        {"type": "log", "message": "x"},
        {"type": "context", "title": "T", "tool_calls": {"from": 0, "items": ["a"]}},
        {"type": "user_message", "seq": 0, "content": "a"},
        {"type": "turn_start", "seq": 1},
    ]
    after: list[dict[str, Any]] = [
        {"type": "agent_delta", "run": "r", "message": "m", "text": "b"},
        {"type": "tool_call_delta", "run": "r", "message": "m", "index": 0, "id": "c", "text": "}"},
        {"type": "usage", "run": "r", "call": "k", "requests": 2},
        {"type": "usage", "run": "r", "call": "l", "requests": 2},
        {"type": "approval_decided", "run": "r", "tool_call_id": "t", "decision": "approve"},
        {"type": "message_edited", "id": "q", "content": "b"},
        {"type": "log", "message": "y"},
        {"type": "context", "title": "U", "tool_calls": {"from": 0, "items": ["b", "c"]}},
        {"type": "cancel_requested", "run": "r", "by": "ada"},
        {"type": "cleared", "seq": 2},
        {"type": "turn_end", "seq": 3},
        {"type": "message_discarded", "run": "r", "message": "m", "call": "k"},
        {"type": "agent_complete", "run": "r", "at": 9},
    ]
    for event in before:
        mirror.fold(event)
    snapshot = mirror.snapshot()
    kept = copy.deepcopy(snapshot)
    for event in after:
        mirror.fold(event)
        assert snapshot == kept
    assert mirror.snapshot() != kept


def test_restored_mirror_does_not_share_state_with_the_snapshot() -> None:
    mirror = Mirror()
    mirror.fold({"type": "context", "tool_calls": {"from": 0, "items": ["a"]}})
    mirror.fold({"type": "agent_start", "run": "r"})
    snapshot = mirror.snapshot()
    kept = copy.deepcopy(snapshot)
    other = Mirror.restore(snapshot)
    other.fold({"type": "context", "tool_calls": {"from": 1, "items": ["b"]}})
    other.fold({"type": "usage", "run": "r", "call": "k", "requests": 1})
    other.fold({"type": "log", "message": "x"})
    assert snapshot == kept
    assert mirror.snapshot() == kept


@pytest.mark.parametrize(
    "mirror",
    [
        {"context": {"version": 3}},
        {"context": {"next_seq": -1}},
        {"context": {"events": [{"type": "user_message"}]}},
        {"runs": [{"run": "r", "status": "sleeping"}]},
        {"runs": [{"agent": "nobody"}]},
        {"open": [{"message": "m", "text": 5}]},
        {"queue": [{}]},
        {"approvals": [{"tool_call_id": "t", "decision": "maybe"}]},
        {"log": [[]]},
    ],
)
def test_restore_what_is_no_state(mirror: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError, match=r"PROTOCOL\.md 5\.1"):
        Mirror.restore({"topic": "t", "epoch": "abcdefgh", "offset": 1, "mirror": mirror})


# bounds


def test_log_keeps_the_last_lines() -> None:
    mirror = Mirror()
    for number in range(MAX_LOG_LINES * 3):
        mirror.fold({"type": "log", "message": str(number)})
    lines = mirror.state()["log"]
    assert [line["message"] for line in lines] == [str(number) for number in range(400, 600)]


def test_delta_does_not_copy_the_text_before_it() -> None:
    mirror = Mirror()
    mirror.apply(_delta(1, "x" * 1_000_000))
    mirror.apply(_delta(2))  # the buffer grows ahead
    tracemalloc.start()
    try:
        for offset in range(3, 503):
            assert mirror.apply(_delta(offset)) == "applied"
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 500_000


# merge


def test_merge_is_offered_beside_the_mirror() -> None:
    assert merge([_delta(1), _delta(2)]) == [
        Publication(offset=2, first=1, data={"type": "agent_delta", "message": "m", "text": "aa"})
    ]

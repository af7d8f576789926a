import json
import logging
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.context.context import Context
from gateway.context.errors import ContextDecodeError
from gateway.context.messages import Message, ToolCall
from gateway.context.usage import Usage

from .strategies import JSON, MESSAGES, TEXT

KEYS = [
    "version",
    "id",
    "events",
    "next_seq",
    "messages",
    "tool_calls",
    "system_prompt",
    "deps",
    "usage",
    "needs_response",
    "iteration",
    "max_iterations",
    "started_at",
    "agent_name",
]
RAW_EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "seq": st.integers(-1, 5) | JSON,
        "type": st.sampled_from(["user_message", "tool_result", "cleared", "turn_start", "nope"]) | JSON,
        "time": st.just("2024-05-01T10:00:00Z") | JSON,
        "data": st.fixed_dictionaries({}, optional={"content": JSON, "surface_op": JSON, "tool_calls": JSON}) | JSON,
    },
)


def through_json(blob: Any) -> Any:
    return json.loads(json.dumps(blob, allow_nan=False))


# save


@given(
    st.lists(MESSAGES, max_size=4),
    st.builds(Usage, requests=st.integers(0, 9), total_tokens=st.integers(0, 9)),
    st.booleans(),
    st.integers(0, 9),
    st.none() | TEXT,
)
def test_saved_is_restored(messages: Any, usage: Any, needs_response: Any, iteration: Any, prompt: Any) -> None:
    ctx = Context.new(
        messages=messages,
        usage=usage,
        needs_response=needs_response,
        iteration=iteration,
        system_prompt=prompt,
        deps={"a": [1, {"b": None}]},
        agent_name="x",
    )
    ctx = ctx.add_tool_call({"id": "1"}).log_event("turn_start", {"turn": 1})
    assert Context.deserialize(through_json(ctx.serialize())) == ctx


def test_saved_has_exactly_these_keys_and_no_overlay() -> None:
    ctx = Context.new(messages=[Message.system("s")]).put_system_prompt_overlay("OVER")
    blob = ctx.serialize()
    assert sorted(blob) == sorted(KEYS)
    assert "OVER" not in json.dumps(blob)


def test_saved_is_the_callers_own() -> None:
    ctx = Context.new(messages=[Message.user("a", metadata={"m": [1]})], deps={"d": [1]})
    blob = ctx.serialize()
    blob["events"][0]["data"]["metadata"]["m"].append(2)
    blob["messages"][0]["metadata"]["m"].append(2)
    blob["deps"]["d"].append(2)
    assert ctx.messages[0].metadata == {"m": [1]}
    assert ctx.deps == {"d": [1]}


def test_saved_deps_are_filtered_at_every_depth(caplog: Any) -> None:
    lock = threading.Lock()
    deps: Any = {
        "max_tokens": 1,
        "handle": lock,
        "list": [1, lock],
        5: "key",
        "nested": {"Password": "p", "keep": 1, "lock": lock, "deep": [{"api_key": "k", "ok": True}]},
    }
    assert Context.new(deps=deps).serialize()["deps"] == {"nested": {"keep": 1, "deep": [{"ok": True}]}}
    assert all(secret not in caplog.text for secret in ("'p'", "'k'"))
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 4


@pytest.mark.parametrize("deps", [5, "text", [1]])
def test_saved_deps_that_are_no_map_are_left_out(deps: Any, caplog: Any) -> None:
    assert Context.new(deps=deps).serialize()["deps"] == {}
    assert len(caplog.records) == 1


def test_saved_deps_that_hold_themselves_are_left_out() -> None:
    deps: dict[str, Any] = {"keep": 1}
    deps["self"] = [deps]
    json.dumps(Context.new(deps=deps).serialize())


def test_saved_tool_calls_are_plain() -> None:
    ctx = Context.new().add_tool_call({"id": "1", "f": {1}}).add_tool_call(ToolCall(id="2", extra={"x": 1}))
    assert ctx.serialize()["tool_calls"] == [{"id": "1", "f": [1]}, {"id": "2", "x": 1}]


# load


@pytest.mark.parametrize(
    ("blob", "code", "version"),
    [
        (None, "missing_version", None),
        ([], "missing_version", None),
        ({"version": True}, "missing_version", None),
        ({"version": "2"}, "missing_version", None),
        ({"version": 3}, "unsupported_version", 3),
        ({"version": 0}, "unsupported_version", 0),
        ({"version": 1, "messages": ["a"]}, "malformed", 1),
        ({"version": 1, "messages": [{"role": "tool", "content": "a"}]}, "malformed", 1),
        ({"version": 2, "events": ["a"]}, "malformed", 2),
        ({"version": 2, "events": [], "next_seq": "1"}, "malformed", 2),
        ({"version": 2, "events": [], "usage": []}, "malformed", 2),
        ({"version": 2, "events": [], "usage": {"requests": "1"}}, "malformed", 2),
        ({"version": 2, "events": [], "deps": []}, "malformed", 2),
        ({"version": 2, "events": [], "started_at": 5}, "malformed", 2),
        ({"version": 2, "events": [], "iteration": -1}, "malformed", 2),
        ({"version": 2, "events": [], "needs_response": 1}, "malformed", 2),
        ({"version": 2, "events": [], "tool_calls": ["a"]}, "malformed", 2),
        ({"version": 2, "events": [], "id": 5}, "malformed", 2),
    ],
)
def test_load_refuses(blob: Any, code: Any, version: Any) -> None:
    with pytest.raises(ContextDecodeError) as caught:
        Context.deserialize(blob)
    assert (caught.value.code, caught.value.version) == (code, version)
    assert code in str(caught.value)


@given(
    st.fixed_dictionaries(
        {"version": st.sampled_from([1, 2])},
        optional=dict.fromkeys(KEYS[1:], JSON) | {"events": st.lists(RAW_EVENTS, max_size=4)},
    )
    | JSON
)
def test_load_gives_a_context_or_its_one_error(blob: Any) -> None:
    try:
        ctx = Context.deserialize(blob)
    except ContextDecodeError:
        return
    assert Context.deserialize(through_json(ctx.serialize())).entries == ctx.entries


@pytest.mark.parametrize("levels", [100, 100_000])
@pytest.mark.parametrize("place", ["blob", "version", "id", "events", "data", "messages", "deps", "content"])
def test_load_of_bottomless_data_has_its_one_error(place: Any, levels: Any) -> None:
    deep: list[Any] = []
    for _ in range(levels):
        deep = [deep]
    blob = {
        "blob": deep,
        "version": {"version": deep},
        "id": {"version": 2, "events": [], "id": deep},
        "events": {"version": 2, "events": deep},
        "data": {"version": 2, "events": [{"seq": deep, "type": "turn_start", "time": deep, "data": {"a": deep}}]},
        "messages": {"version": 1, "messages": deep},
        "deps": {"version": 1, "deps": deep},
        "content": {"version": 1, "messages": [{"role": deep, "content": deep}]},
    }[place]
    with pytest.raises(ContextDecodeError):
        Context.deserialize(blob)


def test_load_defaults() -> None:
    ctx = Context.deserialize(dict.fromkeys(KEYS) | {"version": 2, "events": []})
    assert (ctx.needs_response, ctx.iteration, ctx.max_iterations, ctx.deps) == (False, 0, 10, {})
    assert len(ctx.id) == 16
    assert ctx.started_at is None
    assert ctx.pubsub is None


def test_load_takes_unreadable_start_for_none() -> None:
    assert Context.deserialize({"version": 2, "events": [], "started_at": "once"}).started_at is None


def test_load_of_a_mirrors_context_goes_on_where_the_log_stands() -> None:
    mirror = {
        "version": 2,
        "events": [
            {
                "seq": 9,
                "type": "system_message",
                "time": "2024-05-01T10:00:00.000000Z",
                "data": {"content": "sum", "surface_op": ["replace", 0, 4]},
                "run": "r1",
                "message": None,
            },
            {
                "seq": 7,
                "type": "user_message",
                "time": "2024-05-01T10:00:01.000000Z",
                "data": {"content": "then"},
                "run": "r1",
                "message": "m1",
            },
        ],
        "archived_to": 6,
        "next_seq": 12,
        "id": "c1",
        "title": "T",
        "tool_calls": [],
        "usage": Usage(requests=3).to_dict(),
        "agent_name": None,
        "system_prompt": None,
        "needs_response": None,
        "iteration": None,
        "max_iterations": None,
        "started_at": None,
    }
    ctx = Context.deserialize(mirror)
    assert [message.content for message in ctx.messages] == ["sum", "then"]
    assert ctx.append_user("more").log.events()[-1].seq == 12
    assert (ctx.id, ctx.usage) == ("c1", Usage(requests=3))
    again = Context.deserialize(through_json(ctx.serialize()))
    assert (again.log, again.log.next_seq) == (ctx.log, 12)


def test_load_of_version_1_drops_empty_lists_of_calls() -> None:
    blob = {"version": 1, "messages": [{"role": "user", "content": "a", "tool_calls": [], "whatever": 1}]}
    assert Context.deserialize(blob).messages[0].tool_calls is None

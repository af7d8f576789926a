"""Events as Structs, and what may be published from outside."""

import typing
from typing import Any

import msgspec
import pytest

from gateway import events
from gateway.errors import CommandError, ErrorCode, EventRefusedError
from gateway.events import (
    BOOKKEEPING_TYPES,
    DELTA_TYPES,
    END_TYPES,
    LOGGED_TYPES,
    RESERVED_TYPES,
    SURFACE_TYPES,
    AgentComplete,
    AgentDelta,
    AgentStart,
    AssistantMessage,
    Cleared,
    ContextChanged,
    Event,
    StepStart,
    ToolCallDelta,
    ToolCallStarted,
    TurnStart,
    UsageReport,
    check_publishable,
    from_dict,
    to_dict,
)

_STRUCTS: tuple[Any, ...] = typing.get_args(Event)
_TAGS: set[str] = {struct.__struct_config__.tag for struct in _STRUCTS}


# Event


def test_every_reserved_type_of_4_1_has_a_struct() -> None:
    assert RESERVED_TYPES - {"snapshot", "summary", "broker", "hidden"} == _TAGS
    assert len(_TAGS) == len(_STRUCTS)


def test_type_sets_are_apart() -> None:
    assert LOGGED_TYPES == SURFACE_TYPES | BOOKKEEPING_TYPES
    for one, other in ((SURFACE_TYPES, BOOKKEEPING_TYPES), (LOGGED_TYPES, DELTA_TYPES), (LOGGED_TYPES, END_TYPES)):
        assert not one & other


@pytest.mark.parametrize("struct", _STRUCTS, ids=lambda struct: struct.__struct_config__.tag)
def test_struct_is_frozen_keyword_only_and_exported(struct: Any) -> None:
    assert struct.__struct_config__.frozen
    assert {field.name for field in msgspec.structs.fields(struct)} >= {"at", "run"}
    assert struct.__name__ in events.__all__
    with pytest.raises(TypeError):
        struct("positional")


@pytest.mark.parametrize("struct", _STRUCTS, ids=lambda struct: struct.__struct_config__.tag)
def test_logged_structs_need_a_seq_and_others_have_none(struct: Any) -> None:
    required = {field.name for field in msgspec.structs.fields(struct) if field.required}
    logged = struct.__struct_config__.tag in LOGGED_TYPES
    assert ({"seq", "time"} <= required) == logged


# to_dict


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (AgentStart(run="r", at=1, agent="a"), {"type": "agent_start", "run": "r", "at": 1, "agent": "a"}),
        (AgentDelta(message="m", text="x"), {"type": "agent_delta", "message": "m", "text": "x"}),
        (
            ToolCallDelta(message="m", index=0, text="", id="c"),
            {"type": "tool_call_delta", "message": "m", "index": 0, "text": "", "id": "c"},
        ),
        (
            AssistantMessage(seq=0, time="t", message="m", content=None, metadata={}),
            {"type": "assistant_message", "seq": 0, "time": "t", "message": "m", "content": None, "metadata": {}},
        ),
        (Cleared(seq=3, time="t"), {"type": "cleared", "seq": 3, "time": "t"}),
        (
            ToolCallStarted(seq=0, time="t", id="c", name="f", arguments="{}", server=True),
            {"type": "tool_call", "seq": 0, "time": "t", "id": "c", "name": "f", "arguments": "{}", "server": True},
        ),
        (
            TurnStart(seq=0, time="t", run="r", data={"turn": 1}),
            {"type": "turn_start", "seq": 0, "time": "t", "run": "r", "turn": 1},
        ),
        (StepStart(seq=0, time="t"), {"type": "step_start", "seq": 0, "time": "t"}),
        (
            UsageReport(
                call="k",
                requests=1,
                tool_calls=0,
                input_tokens=0,
                output_tokens=0,
                total_tokens=0,
                cache_creation_input_tokens=0,
                cache_read_input_tokens=0,
            ),
            {
                "type": "usage",
                "call": "k",
                "requests": 1,
                "tool_calls": 0,
                "input_tokens": 0,
                "output_tokens": 0,
                "total_tokens": 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        ),
        (ContextChanged(title=None), {"type": "context", "title": None}),
        (ContextChanged(), {"type": "context"}),
        (AgentComplete(run="r"), {"type": "agent_complete", "run": "r"}),
    ],
    ids=lambda value: value.__class__.__name__,
)
def test_to_dict(event: Event, expected: dict[str, Any]) -> None:
    assert to_dict(event) == expected


@pytest.mark.parametrize("field", ["type", "at", "run", "seq", "time", "message", "blobs"])
def test_to_dict_refuses_data_that_would_hide_a_field(field: str) -> None:
    with pytest.raises(EventRefusedError, match=field):
        to_dict(TurnStart(seq=0, time="t", data={field: 1}))


# check_publishable


@pytest.mark.parametrize("event", [{}, {"text": "a"}, {"type": "cursor"}, {"type": "x.y-Z_9"}, {"type": "a" * 64}])
def test_publishable(event: dict[str, Any]) -> None:
    check_publishable(event)


@pytest.mark.parametrize("kind", ["", "a b", "é", "a" * 65, "a\n", None, 5, ["log"], {"a": 1}, True])
def test_publishable_needs_a_type_that_is_a_name(kind: Any) -> None:
    with pytest.raises(CommandError) as caught:
        check_publishable({"type": kind})
    assert caught.value.code == ErrorCode.BAD_REQUEST
    assert not caught.value.temporary


@pytest.mark.parametrize("kind", sorted(RESERVED_TYPES))
def test_publishable_forges_no_history(kind: str) -> None:
    with pytest.raises(CommandError) as caught:
        check_publishable({"type": kind, "seq": 0})
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


# from_dict


@pytest.mark.parametrize(
    "event",
    [
        AgentStart(agent="a", at=1, run="r"),
        AgentDelta(message="m", text="ä", run="r"),
        AssistantMessage(seq=0, time="t", message="m", content="hi", metadata={}),
        ToolCallStarted(seq=1, time="t", id="c", name="n", arguments="{}"),
        TurnStart(seq=2, time="t"),
        StepStart(seq=3, time="t", run="r", data={"step": 1, "model": {"name": "m"}}),
        ContextChanged(title=None),
        AgentComplete(result={"a": 1}),
    ],
    ids=lambda event: type(event).__name__,
)
def test_from_dict_gives_back_what_to_dict_took(event: Event) -> None:
    assert from_dict(to_dict(event)) == event


@pytest.mark.parametrize(
    "data",
    [{}, {"type": "weather"}, {"type": 1}, {"type": "agent_delta"}, {"type": "agent_delta", "message": 1, "text": "x"}],
)
def test_from_dict_of_another_event_is_none(data: dict[str, Any]) -> None:
    assert from_dict(data) is None


def test_from_dict_leaves_unknown_fields_out() -> None:
    assert from_dict({"type": "cleared", "seq": 1, "time": "t", "blobs": {}, "new": 1}) == Cleared(seq=1, time="t")

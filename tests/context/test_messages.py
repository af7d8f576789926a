from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.context.messages import ContentPart, Entry, Message, ToolCall

from .strategies import CALLS, JSON, MESSAGES

T0 = datetime(2024, 5, 1, 10, tzinfo=UTC)


class Role(StrEnum):
    USER = "user"


# tool calls


@given(CALLS)
def test_tool_call_from_raw_reads_what_to_dict_wrote(call: Any) -> None:
    assert ToolCall.from_raw(call.to_dict()) == call
    assert ToolCall.from_raw(call) is call


@pytest.mark.parametrize(
    ("raw", "call"),
    [
        ({"id": "1", "name": "f", "arguments": "{}"}, ToolCall(id="1", name="f", arguments="{}")),
        ({"function": {"name": "f", "arguments": '{"a":1}'}}, ToolCall(name="f", arguments={"a": 1})),
        ({"function": {"name": "f", "arguments": '{"a"'}}, ToolCall(name="f", arguments='{"a"')),
        ({"function": {"name": "f", "arguments": "[1]"}}, ToolCall(name="f", arguments="[1]")),
        ({"id": None, "name": None, "function": {"id": "2", "name": "g"}}, ToolCall(id="2", name="g")),
        ({"name": "", "arguments": 0, "function": {"name": "g", "arguments": 1}}, ToolCall(name="", arguments=0)),
        ({"type": "function", "index": 3}, ToolCall(extra={"type": "function", "index": 3})),
        ({"function": {"name": "f", "strict": True}}, ToolCall(name="f", extra={"function": {"strict": True}})),
        ({"function": "f"}, ToolCall(extra={"function": "f"})),
    ],
)
def test_tool_call_from_raw_reads_both_shapes(raw: Any, call: Any) -> None:
    assert ToolCall.from_raw(raw) == call


def test_tool_call_from_raw_refuses_what_is_no_map() -> None:
    with pytest.raises(TypeError):
        ToolCall.from_raw("call")  # type: ignore[arg-type]


# construction


def test_entry_is_message() -> None:
    assert Entry is Message


def test_constructors_stamp_now_and_keep_a_given_time() -> None:
    for message in (Message.system("a"), Message.user("a"), Message.assistant(), Message.tool("c", "a")):
        assert message.created_at is not None
        assert message.created_at.tzinfo is UTC
    assert Message.user("a", created_at=T0).created_at == T0
    assert Message(role="user").created_at is None


def test_lists_become_tuples_and_maps_their_structs() -> None:
    raw: Any = {"content": ["a", {"type": "text", "text": "b"}], "tool_calls": [{"id": "1"}]}
    message = Message(role="assistant", **raw)
    assert message.content == (ContentPart.of_text("a"), ContentPart.of_text("b"))
    assert message.tool_calls == (ToolCall(id="1"),)


def test_tool_keeps_text_and_parts_and_writes_the_rest_as_json() -> None:
    parts = [ContentPart.of_text("a")]
    assert Message.tool("c", "text").content == "text"
    assert Message.tool("c", parts).content == tuple(parts)
    assert Message.tool("c", {"b": {2, 1}}).content == '{"b":[1,2]}'
    assert Message.tool("c", []).content == "[]"
    assert Message.tool("c", None).content == "null"


@pytest.mark.parametrize(("calls", "has"), [(None, False), ((), False), ((ToolCall(),), True)])
def test_has_tool_calls(calls: Any, has: Any) -> None:
    assert Message(role="assistant", tool_calls=calls).has_tool_calls is has


# from_dict


@given(MESSAGES.filter(lambda m: m.role != "developer"))
def test_from_dict_reads_what_to_dict_wrote_or_refuses(message: Any) -> None:
    plain = message.content is not None or message.role == "assistant"
    filled = message.content != "" or message.role in {"assistant", "tool"}
    answered = (message.role == "tool") == (message.tool_call_id is not None)
    if plain and filled and answered:
        assert Message.from_dict(message.to_dict()) == message
    else:
        with pytest.raises(ValueError):
            Message.from_dict(message.to_dict())


@given(st.dictionaries(st.sampled_from(Message.__struct_fields__), JSON))
def test_from_dict_gives_a_message_or_a_value_error(raw: Any) -> None:
    try:
        message = Message.from_dict(raw)
    except ValueError:
        return
    assert message.role in {"system", "user", "assistant", "tool"}


@pytest.mark.parametrize("content", [None, ""])
def test_from_dict_tells_no_content_from_empty_content_of_an_assistant(content: Any) -> None:
    assert Message.from_dict({"role": "assistant", "content": content}).content == content


@pytest.mark.parametrize(
    "raw",
    [
        "text",
        {"role": "robot", "content": "a"},
        {"role": "user"},
        {"role": "user", "content": ""},
        {"role": "system", "content": ""},
        {"role": "user", "content": 5},
        {"role": "user", "content": [5]},
        {"role": "tool", "content": "a"},
        {"role": "user", "content": "a", "tool_call_id": "c"},
        {"role": "assistant", "tool_calls": {}},
        {"role": "assistant", "tool_calls": ["c"]},
        {"role": "assistant", "created_at": "soon"},
        {"role": "assistant", "name": 5},
    ],
)
def test_from_dict_refuses(raw: Any) -> None:
    with pytest.raises(ValueError):
        Message.from_dict(raw)


# from_raw


@given(st.dictionaries(st.sampled_from([*Message.__struct_fields__, "timestamp"]), JSON))
def test_from_raw_refuses_a_missing_role_only(raw: Any) -> None:
    role = raw.get("role")
    if isinstance(role, str) and role:
        assert Message.from_raw(raw).role == role
    else:
        with pytest.raises(ValueError):
            Message.from_raw(raw)


def test_from_raw_takes_roles_from_enums_and_messages_as_they_are() -> None:
    message = Message.user("a")
    assert Message.from_raw(message) is message
    assert Message.from_raw({"role": Role.USER, "content": "a"}).role == "user"
    with pytest.raises(TypeError):
        Message.from_raw("user: a")  # type: ignore[arg-type]


def test_from_raw_sorts_an_assistants_parts() -> None:
    image = {"type": "image_url", "url": "u"}
    think = [{"type": "thinking", "thinking": "a"}, {"type": "thinking", "text": "b"}, {"type": "thinking"}]
    text = [{"type": "text", "text": "x"}, "y", {"type": "text", "text": 5}]
    plain = Message.from_raw({"role": "assistant", "content": [*think, *text]})
    assert (plain.content, plain.thinking) == ("xy", "ab")
    mixed = Message.from_raw({"role": "assistant", "content": [think[0], "x", image]})
    assert (mixed.content, mixed.thinking) == ((ContentPart.of_text("x"), ContentPart.of_image_url("u")), "a")
    assert Message.from_raw({"role": "assistant", "content": []}).content == ""


def test_from_raw_keeps_parts_of_people_and_tools_and_joins_those_of_others() -> None:
    parts = [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}, "y"]
    user = Message.from_raw({"role": "user", "content": parts})
    assert user.content == (ContentPart.of_thinking("t"), ContentPart.of_text("x"), ContentPart.of_text("y"))
    assert user.thinking is None
    assert Message.from_raw({"role": "system", "content": parts}).content == "xy"


def test_from_raw_reads_times_and_refs() -> None:
    raw = {"role": "user", "content": "a", "refs": {}, "created_at": "soon", "timestamp": "2024-05-01T10:00:00Z"}
    message = Message.from_raw(raw)
    assert message.created_at == T0
    assert message.refs is None
    assert Message.from_raw({"role": "user"}).created_at is not None

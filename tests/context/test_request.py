from typing import Any

import pytest

from gateway.context.messages import ContentPart, Message, ToolCall
from gateway.context.request import request_messages

THREE = [Message.user("a"), Message.assistant("b"), Message.user("c")]


def projected(messages: Any, **options: Any) -> Any:
    return request_messages(messages, **{"system_prompt": None, "overlay": None, "limit": None, **options})


def one(message: Any) -> Any:
    (fields,) = projected([message])
    return fields


@pytest.mark.parametrize(
    ("limit", "kept"), [(None, "abc"), (0, ""), (2, "bc"), (9, "abc"), (-1, "abc"), ("2", "abc"), (True, "abc")]
)
def test_limit_counts_entries_only(limit: Any, kept: Any) -> None:
    shown = projected(THREE, system_prompt="P", limit=limit)
    assert [message["content"] for message in shown] == ["P", *kept]


def test_overlay_joins_the_prompt_or_leads() -> None:
    assert projected(THREE[:1], system_prompt="P", overlay="O")[0]["content"] == "P\n\nO"
    assert [m["content"] for m in projected(THREE, overlay="O", limit=1)] == ["O", "c"]
    assert projected([], overlay="O") == [{"role": "system", "content": "O"}]
    assert projected([Message.system("s")], overlay="O")[0]["content"] == "s\n\nO"


def test_tool_always_names_its_call() -> None:
    assert one(Message.tool("c", "r")) == {"role": "tool", "tool_call_id": "c", "name": None, "content": "r"}


def test_assistant_with_a_list_of_calls_has_content() -> None:
    assert one(Message.assistant(None, tool_calls=())) == {"role": "assistant", "content": "", "tool_calls": []}
    assert one(Message.assistant(None)) == {"role": "assistant", "content": None}


def test_thinking_leads_the_content() -> None:
    block = {"type": "thinking", "thinking": "t"}
    assert one(Message.assistant(None, thinking="t"))["content"] == [block, {"type": "text", "text": ""}]
    parts = (ContentPart.of_image_url("u"),)
    assert one(Message.assistant(parts, thinking="t"))["content"] == [block, {"type": "image_url", "url": "u"}]
    assert one(Message.user("a", thinking="t"))["content"] == "a"


def test_optional_fields_where_they_are_set() -> None:
    assert one(Message.user("a", name="n", refs={"r": 1})) == {
        "role": "user",
        "content": "a",
        "name": "n",
        "refs": {"r": 1},
    }
    assert one(Message.assistant("a", reasoning_details=[1]))["reasoning_details"] == [1]
    other = Message(role="developer", content="a", tool_call_id="c", tool_calls=(ToolCall(id="1"),), metadata={"m": 1})
    assert one(other) == {"role": "developer", "content": "a", "tool_call_id": "c", "tool_calls": [{"id": "1"}]}

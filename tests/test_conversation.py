"""The folded conversation."""

from typing import Any

import pytest

from gateway.conversation import conversation


def _entry(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"seq": 7, "type": kind, "time": "t", "data": data, "run": "r", "message": "m"}


@pytest.mark.parametrize(
    ("kind", "data", "role"),
    [
        ("system_message", {}, "system"),
        ("user_message", {"role": "ignored"}, "user"),
        ("assistant_message", {}, "assistant"),
        ("tool_result", {}, "tool"),
        ("custom_message", {"role": "narrator"}, "narrator"),
        ("custom_message", {"role": ""}, ""),
        ("custom_message", {"role": 1}, "custom"),
        ("custom_message", {}, "custom"),
    ],
)
def test_role(kind: str, data: dict[str, Any], role: str) -> None:
    (message,) = conversation([_entry(kind, data)])
    assert message["role"] == role
    assert (message["created_at"], message["message"], message["run"], message["seq"]) == ("t", "m", "r", 7)


def test_fields_stand_as_they_were_logged() -> None:
    data = {"content": [1], "name": {}, "tool_calls": "x", "tool_call_id": 0, "thinking": "", "metadata": []}
    (message,) = conversation([_entry("assistant_message", {**data, "refs": {"left": "out"}})])
    assert data.items() <= message.items()
    assert "refs" not in message


def test_cleared_is_no_message() -> None:
    assert conversation([_entry("cleared", {})]) == []

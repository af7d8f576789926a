"""Rules of what a role may not see."""

from typing import Any

import msgspec
import pytest

from gateway.redaction import MASKED, Redaction


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("all", "expected a redaction to be"),
        ({"hide": []}, "expected a redaction to be"),
        ({"drop": "log"}, "expected drop to be a list"),
        ({"drop": [1]}, "expected drop to be a list"),
        ({"drop": ["no type"]}, "expected drop to name types"),
        ({"mask": ["log"]}, "expected mask to name <type>.<field>"),
        ({"mask": ["log."]}, "expected mask to name <type>.<field>"),
        ({"mask": ["tool_call.id"]}, "belong together"),
    ],
)
def test_read_refuses_rules_of_another_form(rules: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Redaction.read(rules)


def test_read_of_rules_that_take_nothing_out_is_none() -> None:
    assert Redaction.read(None) is Redaction.read({}) is Redaction.read({"drop": [], "mask": []}) is None


def test_path_into_what_is_no_object_masks_the_whole() -> None:
    rules = Redaction.read({"mask": ["log.fields.password"]})
    assert rules is not None
    masked = rules.redact_event({"type": "log", "message": "m", "fields": {"password": "x", "user": "u"}})
    assert masked == {"type": "log", "message": "m", "fields": {"password": MASKED, "user": "u"}}
    assert rules.redact_event({"type": "log", "fields": "password=x"}) == {"type": "log", "fields": MASKED}
    assert rules.redact_event({"type": "log", "fields": [{"password": 1}]}) == {
        "type": "log",
        "fields": [{"password": None}],
    }


def test_event_that_is_not_changed_passes_as_it_is() -> None:
    rules = Redaction.read({"drop": ["logs"], "mask": ["arguments"]})
    assert rules is not None
    data = msgspec.json.encode({"type": "agent_delta", "message": "m", "text": "a"})
    assert rules.redact("agent_delta", data) is data


def test_large_values_of_what_is_masked_are_not_referred_to() -> None:
    rules = Redaction.read({"mask": ["assistant_message.tool_calls.arguments", "tool_result.content.text"]})
    assert rules is not None
    blobs = {name: {"hash": "h", "bytes": 1} for name in ("/tool_calls/0/arguments", "/tool_calls/0/name", "/content")}
    event = {"type": "assistant_message", "seq": 0, "content": "c", "tool_calls": [{"arguments": "a"}], "blobs": blobs}
    shown = rules.redact_event(event)
    assert shown is not None
    assert shown["blobs"].keys() == {"/tool_calls/0/name", "/content"}
    assert rules.redact_event({"type": "tool_result", "blobs": blobs}) == {
        "type": "tool_result",
        "blobs": {name: blobs[name] for name in ("/tool_calls/0/arguments", "/tool_calls/0/name")},
    }


def test_rules_on_deltas_leave_the_name_of_a_call() -> None:
    rules = Redaction.read({"mask": ["arguments", "agent_delta.text"]})
    assert rules is not None
    named = {"type": "tool_call_delta", "message": "m", "index": 0, "id": "c", "name": "rm", "text": "{"}
    assert rules.redact_event(named) == {key: value for key, value in named.items() if key != "text"}
    assert rules.redact_event({"type": "tool_call_delta", "message": "m", "index": 0, "text": "}"}) is None
    assert rules.redact_event({"type": "agent_delta", "message": "m", "text": "a"}) is None


def test_dropped_usage_is_not_told_at_the_end_either() -> None:
    rules = Redaction.read({"drop": ["usage"]})
    assert rules is not None
    shown = rules.redact("agent_complete", b'{"type":"agent_complete","result":"r","usage":{"output_tokens":7}}')
    assert shown == b'{"type":"agent_complete","result":"r","usage":null}'
    assert rules.redact("usage", b"{}") is None


def test_dropped_calls_and_thinking_are_not_told_by_other_types_either() -> None:
    redaction = Redaction.read({"drop": ["tools", "agent_thinking"]})
    assert redaction is not None
    call = {"id": "c", "name": "search", "arguments": "hush"}
    event = {"type": "assistant_message", "content": "Hello", "thinking": "hush", "tool_calls": [call]}
    assert redaction.redact_event(event) == {
        **event,
        "thinking": MASKED,
        "tool_calls": [{**call, "arguments": MASKED}],
    }
    items = redaction.redact_event({"type": "context", "tool_calls": {"items": [{**call, "result": "hush"}]}})
    assert items == {
        "type": "context",
        "tool_calls": {"items": [{**call, "arguments": MASKED, "result": MASKED}]},
    }

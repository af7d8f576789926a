from typing import Any

import pytest

from gateway.actions.fields import (
    MAX_ARGUMENTS,
    MAX_REASON,
    arguments_field,
    choice_field,
    content_field,
    id_field,
    name_field,
    reason_field,
    topic_field,
)
from gateway.errors import CommandError


@pytest.mark.parametrize("text", ['{"a":1}', '{"ü": [1.0, "\\u00fc"]}', " {} ", '{\n"a": null}'])
def test_arguments_that_parse_are_taken_as_they_are(text: str) -> None:
    assert arguments_field({"arguments": text}, wanted=True) == text


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ('{"a":1,}', "at line 1, column 8"),
        ('{\n "a" 1}', "at line 2, column 6"),
        ("", "at line 1, column 1"),
        ("{} {}", "at line 1, column 4"),
        ('{"a":NaN}', "are no JSON: JSON is malformed: invalid character (byte 5)"),
        ('{"a":"\\ud800"}', "are no JSON: "),
        ('{"a":"\ud800"}', "are no JSON: "),
        ("[]", "expected `arguments` to be a JSON object, got list"),
        ("null", "expected `arguments` to be a JSON object"),
        ('{"a":' * 20_000, "`arguments` may have"),
        ('{"a":' * 10_000, "nested too deeply"),
        ("1" * 5000, "Integer value out of range"),
        ('"' + "x" * MAX_ARGUMENTS + '"', f"may have {MAX_ARGUMENTS} bytes"),
        (None, "expected `arguments`"),
        ({"a": 1}, "as JSON text"),
    ],
)
def test_arguments_that_are_no_json_text_are_refused_with_the_place(arguments: Any, place: str) -> None:
    with pytest.raises(CommandError, match="107") as caught:
        arguments_field({"arguments": arguments}, wanted=True)
    assert place in caught.value.message


def test_arguments_that_nobody_would_heed_are_refused() -> None:
    assert arguments_field({}, wanted=False) is None
    with pytest.raises(CommandError, match="for the decision `edit` only"):
        arguments_field({"arguments": "{}"}, wanted=False)


@pytest.mark.parametrize("reason", [5, "x" * (MAX_REASON + 1)])
def test_reason_is_a_bounded_text(reason: Any) -> None:
    with pytest.raises(CommandError, match="107"):
        reason_field({"reason": reason})
    assert reason_field({"reason": "x" * MAX_REASON}) == "x" * MAX_REASON
    assert reason_field({}) is None


@pytest.mark.parametrize("value", [None, 5, [], "later"])
def test_choice_is_one_of_those(value: Any) -> None:
    with pytest.raises(CommandError, match="one of now, after_step"):
        choice_field({"mode": value}, "mode", ("now", "after_step"))
    assert choice_field({}, "mode", ("now", "after_step"), default="now") == "now"


@pytest.mark.parametrize("data", [{}, {"run": ""}, {"run": 5}, {"run": "x" * 1001}])
def test_name_is_a_bounded_text(data: Any) -> None:
    with pytest.raises(CommandError, match="107"):
        name_field(data, "run")


@pytest.mark.parametrize("data", [{}, {"id": ""}, {"id": "a b"}, {"id": "x" * 65}, {"id": 5}, {"id": "a\n"}])
def test_id_has_a_plain_form(data: Any) -> None:
    with pytest.raises(CommandError, match="107"):
        id_field(data)


@pytest.mark.parametrize("content", [None, "", [], 5, {"text": "x"}, ["x"]])
def test_content_is_a_text_or_parts(content: Any) -> None:
    with pytest.raises(CommandError, match="107"):
        content_field({"content": content})


@pytest.mark.parametrize(("data", "code"), [({}, 107), ({"topic": 5}, 107), ({"topic": "no blanks"}, 102)])
def test_topic_is_a_name(data: Any, code: int) -> None:
    with pytest.raises(CommandError, match=str(code)):
        topic_field(data)

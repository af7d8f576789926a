import json
from typing import Any

import pytest

from gateway.agent.sent_arguments import sent_arguments
from gateway.context.messages import ToolCall


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ('{"a":  1.0}', '{"a":  1.0}'),
        ({"a": 1}, '{"a":1}'),
        ("", "{}"),
        (None, "{}"),
    ],
)
def test_objects_are_sent_as_they_are(given: Any, sent: str) -> None:
    assert sent_arguments(ToolCall(id="c1", name="t", arguments=given)) == sent


@pytest.mark.parametrize("given", ['{"a"', "[1]", "null", '"x"', "{} {}", "[" * 100_000])
def test_anything_else_is_sent_inside_an_object(given: str) -> None:
    """Report 53."""
    assert json.loads(sent_arguments(ToolCall(id="c1", name="t", arguments=given))) == {"invalid_arguments": given}


def test_half_a_character_breaks_no_request() -> None:
    sent = sent_arguments(ToolCall(id="c1", name="t", arguments="\ud83d"))
    assert json.loads(sent) == {"invalid_arguments": "\ufffd"}

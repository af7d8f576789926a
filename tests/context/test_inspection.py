from typing import Any

import pytest

from gateway.context.inspection import debug_view, format_lines
from gateway.context.messages import ContentPart, Message

TWO = [Message.user("a" * 5), Message.assistant("b")]


def view(entries: Any, **options: Any) -> Any:
    return debug_view(entries, **{"id": "x", "system_prompt": None, "last": None, "truncate": 200, **options})


@pytest.mark.parametrize(("last", "count"), [(None, 2), (1, 1), (9, 2), (0, 2), (-1, 2), ("1", 2), (True, 2)])
def test_debug_view_shows_the_last(last: Any, count: Any) -> None:
    shown = view(TWO, last=last)
    assert len(shown["entries"]) == count
    assert shown["length"] == 2


@pytest.mark.parametrize(("truncate", "text"), [(5, "aaaaa"), (4, "aaaa..."), (0, "...")])
def test_debug_view_cuts_by_characters(truncate: Any, text: Any) -> None:
    assert view(TWO, truncate=truncate)["entries"][0]["content"] == text


def test_debug_view_leaves_out_what_is_not_set() -> None:
    assert view([Message.assistant(None, tool_calls=())])["entries"] == [{"role": "assistant"}]


def test_debug_view_renders_parts() -> None:
    assert view([Message.user([ContentPart.of_image_url("u")])])["entries"][0]["content"] == "[Image: u]"


def test_lines_name_the_types_of_parts() -> None:
    parts = [ContentPart.of_text("a"), ContentPart.of_image_url("u"), ContentPart.of_image(b"x")]
    assert format_lines([Message.user(parts)], system_prompt=None) == ["[user]   [text] a [image_url] u [image]"]


def test_lines_of_empty_content() -> None:
    lines = format_lines([Message.assistant(None), Message.tool("c", "")], system_prompt="P")
    assert lines == ["[system] P", "[asst]   ", "[tool]   : "]

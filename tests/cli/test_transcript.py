"""Events as text for people."""

from typing import Any

import click
import pytest

from gateway.cli.transcript import Transcript
from gateway.mirror import Mirror
from gateway.reader import Update
from gateway.types import Position, Publication, Topic


def shown(*events: dict[str, Any]) -> str:
    """Show events one after another, without colours."""
    transcript = Transcript()
    texts = [transcript.show(update(offset, event)) for offset, event in enumerate(events, start=1)]
    return click.unstyle("".join(texts) + transcript.end())


def update(offset: int, data: dict[str, Any], *, snapshot: bool = False) -> Update:
    position = Position(epoch="aB3dE6gH", offset=offset)
    return Update(topic=Topic("t"), data=data, position=position, first=offset, snapshot=snapshot)


def delta(text: str, *, kind: str = "agent_delta", message: str = "m") -> dict[str, Any]:
    return {"type": kind, "run": "r", "message": message, "text": text}


def test_deltas_grow_in_place_and_their_message_is_not_shown_again() -> None:
    message = {"type": "assistant_message", "message": "m", "content": "Hello", "seq": 0}
    assert shown(delta("Hel"), delta("lo"), message) == "Hello\n"


def test_message_without_deltas_is_shown() -> None:
    message = {"type": "assistant_message", "message": "m", "content": "Hello", "thinking": "Hm", "seq": 0}
    assert shown(message) == "Hm\nHello\n"


def test_thinking_text_and_calls_get_lines_of_their_own() -> None:
    call = {"type": "tool_call_delta", "message": "m", "index": 0}
    events = (
        delta("Hm", kind="agent_thinking"),
        delta("Let me "),
        delta("see"),
        {**call, "id": "c", "name": "add", "text": '{"a"'},
        {**call, "text": ":1}"},
        {"type": "assistant_message", "message": "m", "content": "Let me see", "tool_calls": [{"name": "add"}]},
        {"type": "tool_call", "id": "c", "name": "add", "arguments": '{"a":1}'},
        {"type": "tool_result", "tool_call_id": "c", "name": "add", "content": "1"},
    )
    assert shown(*events) == 'Hm\nLet me see\n→ add {"a":1}\n= add 1\n'


MESSAGE = {
    "type": "assistant_message",
    "message": "m",
    "content": None,
    "tool_calls": [{"id": "c", "name": "rm", "arguments": '{"a":1}'}],
}
ASKED = {"type": "approval_required", "tool_call_id": "c", "name": "rm", "arguments": '{"a":1}'}
CALLED = {"type": "tool_call", "id": "c", "name": "rm", "arguments": '{"a":1}'}


def test_call_is_shown_once_where_it_appears_first() -> None:
    assert shown(MESSAGE, ASKED, CALLED) == '→ rm {"a":1}\n? rm asks for approval\n'
    pieces = [
        {"type": "tool_call_delta", "message": "m", "index": 0, "id": "c", "name": "rm", "text": '{"a"'},
        {"type": "tool_call_delta", "message": "m", "index": 1, "id": "d", "name": "ls", "text": "{}"},
        {"type": "tool_call_delta", "message": "m", "index": 0, "text": ":1}"},
    ]
    expected = '→ rm {"a"\n→ ls {}\n→ rm :1}\n? rm asks for approval\n'
    assert shown(*pieces, MESSAGE, ASKED, CALLED) == expected


def test_call_with_other_arguments_is_shown_again() -> None:
    edited = {**CALLED, "arguments": '{"a":2}'}
    assert shown(MESSAGE, ASKED, edited) == '→ rm {"a":1}\n? rm asks for approval\n⚙ rm {"a":2}\n'


def test_call_of_another_run_is_another_one() -> None:
    end = {"type": "agent_complete", "run": "r"}
    assert shown(MESSAGE, CALLED, end, MESSAGE, CALLED).count('→ rm {"a":1}') == 2
    assert shown(MESSAGE, end, CALLED).count('rm {"a":1}') == 2


def test_run_begins_and_ends_with_a_rule() -> None:
    start = {"type": "agent_start", "run": "0123456789abcdef", "agent": "a", "model": "m"}
    end = {"type": "agent_error", "run": "0123456789abcdef", "error": "no luck"}
    assert shown(start, delta("x"), end) == "── run 01234567 a (m) ──\nx\n── run 01234567 failed: no luck ──\n"


def test_end_tells_what_the_run_took() -> None:
    start = {"type": "agent_start", "run": "0123456789abcdef", "agent": "a", "at": 1000}
    usage = {"type": "usage", "run": "0123456789abcdef", "call": "c", "input_tokens": 1, "output_tokens": 1}
    end = {"type": "agent_complete", "run": "0123456789abcdef", "at": 3500}
    text = shown(start, usage, {**usage, "input_tokens": 1200, "output_tokens": 40}, end)
    assert text.splitlines()[1] == "── run 01234567 completed in 2.5 s, 1,200 tokens read, 40 written ──"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"type": "tool_result", "name": "ls", "content": "x", "metadata": {"duration_ms": 12}}, "= ls x (12 ms)\n"),
        ({"type": "user_message", "content": "hi"}, "user: hi\n"),
        (
            {"type": "user_message", "content": [{"type": "text", "text": "hi"}, {"type": "image"}]},
            "user: hi\n[image]\n",
        ),
        ({"type": "custom_message", "role": "critic", "content": "no"}, "critic: no\n"),
        ({"type": "log", "level": "warning", "message": "hot"}, "[warning] hot\n"),
        ({"type": "progress", "fraction": 0.5}, "… 50%\n"),
        ({"type": "approval_required", "name": "rm", "arguments": "{}"}, "? rm asks for approval {}\n"),
        ({"type": "tool_call", "id": "c", "name": "rm", "arguments": "{}"}, "⚙ rm {}\n"),
        ({"type": "approval_decided", "decision": "reject", "by": "ann"}, "! reject by ann\n"),
        ({"type": "message_queued", "content": "later"}, "(waiting) later\n"),
        ({"type": "cancel_requested"}, "stop requested\n"),
        ({"type": "cleared"}, "── the context was cleared ──\n"),
        ({"type": "usage", "call": "c"}, ""),
        ({"type": "step_start"}, ""),
        ({"type": "weather", "at": 1, "sky": "blue"}, 'weather {"sky":"blue"}\n'),
        ({"x": 1}, 'event {"x":1}\n'),
    ],
)
def test_each_kind_of_event(event: dict[str, Any], expected: str) -> None:
    assert shown(event) == expected


@pytest.mark.parametrize("junk", [None, 1, [], {}, [1], {"a": []}])
@pytest.mark.parametrize(
    "kind",
    [
        "agent_start",
        "agent_delta",
        "tool_call_delta",
        "assistant_message",
        "tool_call",
        "tool_result",
        "log",
        "progress",
        "agent_error",
        "user_message",
        "approval_decided",
        "x",
    ],
)
def test_fields_of_any_kind_are_shown_somehow(kind: str, junk: object) -> None:
    fields = [
        "run",
        "message",
        "text",
        "content",
        "metadata",
        "tool_calls",
        "name",
        "level",
        "fraction",
        "error",
        "role",
    ]
    shown({"type": kind, **dict.fromkeys(fields, junk)}, {"type": junk})


def test_control_characters_do_not_reach_the_terminal() -> None:
    evil = "a\x1b]0;title\x07b\x9bc\rd"
    text = shown(delta(evil), {"type": "user_message", "content": evil}, {"type": evil, "x": evil})
    assert not any(ord(character) < 32 and character not in "\n\t" for character in text)
    assert "\x9b" not in text


def test_long_results_are_cut() -> None:
    text = shown({"type": "tool_result", "name": "read", "content": "x" * 5000})
    assert text == f"= read {'x' * 2000}… (3000 characters more)\n"


def test_snapshot_shows_the_conversation() -> None:
    mirror = Mirror("t", "aB3dE6gH", 0)
    events = [
        {"type": "user_message", "seq": 0, "content": "hi"},
        {"type": "assistant_message", "seq": 1, "content": "hello", "message": "m"},
        delta("and mo", message="n"),
    ]
    for offset, event in enumerate(events, start=1):
        mirror.apply(Publication(offset=offset, data=event))
    transcript = Transcript()
    text = click.unstyle(transcript.show(update(3, mirror.snapshot(), snapshot=True)))
    assert text == "── the state at aB3dE6gH:3 ──\nuser: hi\nassistant: hello\nand mo\n"

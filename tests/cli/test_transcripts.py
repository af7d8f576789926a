"""Several topics' events as text for people."""

from typing import Any

import click

from gateway.cli.transcripts import Transcripts
from gateway.reader import Update
from gateway.types import Position, Topic

T, U = Topic("t"), Topic("t/r")


def update(topic: Topic, data: dict[str, Any]) -> Update:
    return Update(topic=topic, data=data, position=Position(epoch="aB3dE6gH", offset=1), first=1)


def delta(topic: Topic, text: str, *, kind: str = "agent_delta") -> Update:
    return update(topic, {"type": kind, "message": "m", "text": text})


def shown(transcripts: Transcripts, *updates: Update) -> str:
    return click.unstyle("".join(map(transcripts.show, updates)) + transcripts.end())


def test_topics_take_turns_line_by_line() -> None:
    transcripts = Transcripts()
    transcripts.name(U, "helper")
    text = shown(
        transcripts,
        delta(T, "I as"),
        delta(T, "k"),
        delta(U, "I se"),
        delta(U, "arch\nand"),
        delta(U, " find"),
        delta(T, "I wait"),
        update(U, {"type": "tool_result", "name": "search", "content": "two\nlines"}),
        delta(T, "It is done"),
    )
    assert text == (
        "I ask\nhelper │ I search\nhelper │ and find\nI wait\nhelper │ = search two\nhelper │ lines\nIt is done\n"
    )


def test_line_that_ended_within_a_message_begins_with_the_name_again() -> None:
    transcripts = Transcripts()
    transcripts.name(U, "helper")
    pieces = [delta(U, "a\n", kind="agent_thinking"), delta(U, "b", kind="agent_thinking")]
    assert shown(transcripts, *pieces) == "helper │ a\nhelper │ b\n"


def test_what_shows_nothing_takes_no_turn() -> None:
    transcripts = Transcripts()
    assert shown(transcripts, delta(T, "a"), update(U, {"type": "step_start"}), delta(T, "b")) == "ab\n"


def test_topic_that_is_forgotten_ends_its_line_and_loses_its_name() -> None:
    transcripts = Transcripts()
    transcripts.name(U, "helper")
    text = transcripts.show(delta(U, "bye")) + transcripts.forget(U) + transcripts.forget(U)
    text += transcripts.show(delta(U, "again")) + transcripts.end()
    assert click.unstyle(text) == "helper │ bye\nagain\n"

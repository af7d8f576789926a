from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from gateway.codec import decode_event
from gateway.context.context import Context
from gateway.context.log import chain_hash
from gateway.context.messages import Message
from gateway.errors import EventRefusedError
from gateway.mirror import Mirror
from gateway.outbox import Outgoing
from gateway.recorder import Recorder, lost_event, outgoing


def recorder() -> Recorder:
    context = Context.deserialize({"version": 2, "id": "c", "events": []})
    return Recorder(run="r", context=context, published={}, hash="")


def decoded(entries: list[Outgoing]) -> list[dict[str, Any]]:
    return [decode_event(out.entry.data) for out in entries]


def test_message_becomes_a_flat_event_with_seq_time_and_hash() -> None:
    own = recorder()
    entries, step = own.record(own.context.add_message(Message.user("Hi")), at=5, message="q1")
    event = decoded(entries)[0]
    assert (event["type"], event["at"], event["run"], event["seq"], event["message"]) == (
        "user_message",
        5,
        "r",
        0,
        "q1",
    )
    assert event["content"] == "Hi"
    data = {key: value for key, value in event.items() if key not in {"type", "at", "run", "seq", "time", "message"}}
    assert step is not None
    assert (step.first, step.before, step.next) == (0, "", 1)
    assert step.after == chain_hash("", 0, "user_message", event["time"], data)


def test_steps_go_on_from_one_another() -> None:
    own = recorder()
    mark = own.mark()
    steps = [own.record(own.context.add_message(Message.user(str(n))), at=1)[1] for n in range(3)]
    assert all(step is not None for step in steps)
    for one, other in pairwise(steps):
        assert one is not None
        assert other is not None
        assert (one.next, one.after) == (other.first, other.before)
    whole = own.step_since(mark)
    assert whole is not None
    assert (whole.first, whole.next) == (0, 3)
    assert own.step_since(own.mark()) is None


def test_only_assistant_messages_end_an_open_one() -> None:
    own = recorder()
    kinds = []
    for message in (Message.user("a"), Message.assistant("b"), Message.tool("c", "d")):
        entries, _ = own.record(own.context.add_message(message), at=1, message="m")
        kinds.append((entries[0].entry.kind, entries[0].entry.message))
    assert kinds == [("h", ""), ("e", "m"), ("h", "")]


def test_changed_fields_are_told_once() -> None:
    own = recorder()
    first, _ = own.record(msgspec.structs.replace(own.context, system_prompt="Be brief"), at=1)
    assert decoded(first)[0]["system_prompt"] == "Be brief"
    assert own.record(own.context, at=1) == ([], None)
    second, _ = own.record(msgspec.structs.replace(own.context, system_prompt=None), at=1, title="T")
    assert {key: decoded(second)[0][key] for key in ("system_prompt", "title")} == {"system_prompt": None, "title": "T"}
    assert own.title == "T"


def test_tool_calls_are_told_where_they_begin() -> None:
    own = recorder()
    own.record(own.context.add_tool_call({"id": "1"}).add_tool_call({"id": "2"}), at=1)
    entries, _ = own.record(own.context.add_tool_call({"id": "3"}), at=1)
    assert decoded(entries)[0]["tool_calls"] == {"from": 2, "items": [{"id": "3"}]}


def test_mirror_follows_the_context() -> None:
    own, mirror = recorder(), Mirror("t", "e", 0)
    changes: list[Callable[[Context], Context]] = [
        lambda context: context.add_message(Message.user("one")),
        lambda context: context.add_message(Message.assistant("two")),
        lambda context: context.replace_message_range(0, 1, Message.system("both")),
        lambda context: context.increment_iteration(),
        lambda context: context.add_tool_call({"id": "c"}),
        lambda context: context.log_event("turn_start", {"turn": 1}),
        lambda context: context.clear(),
        lambda context: context.add_message(Message.user("three")),
    ]
    for change in changes:
        for event in decoded(own.record(change(own.context), at=1)[0]):
            mirror.fold(event)
        there = Context.deserialize(mirror.state()["context"])
        assert [message.to_dict() for message in there.entries] == [
            message.to_dict() for message in own.context.entries
        ]
        assert there.log.next_seq == own.context.log.next_seq
        assert (there.id, there.iteration, there.needs_response, there.tool_calls) == (
            own.context.id,
            own.context.iteration,
            own.context.needs_response,
            own.context.tool_calls,
        )


@pytest.mark.parametrize("field", ["seq", "run", "time", "blobs"])
def test_data_with_an_events_own_field_is_refused_and_changes_nothing(field: str) -> None:
    own = recorder()
    before = own.mark()
    with pytest.raises(EventRefusedError, match=field):
        own.record(own.context.log_event("turn_start", {field: "x"}), at=1)
    assert own.mark() == before


def test_text_of_a_log_line_is_no_message_id() -> None:
    assert outgoing({"type": "log", "message": "two words"}).entry.message == ""


def test_lost_event() -> None:
    event = decode_event(lost_event("r", at=7))
    assert (event["type"], event["run"], event["at"]) == ("agent_lost", "r", 7)

from typing import Any

from gateway.codec import decode_event
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.ending import MAX_CUT_CHARACTERS, last_group, seal
from gateway.outbox import Group
from gateway.recorder import Recorder
from gateway.unfinished import UnfinishedMessage


def recorder(*messages: Message) -> Recorder:
    context = Context.deserialize({"version": 2, "id": "c", "events": []})
    own = Recorder(run="r", context=context, published={}, hash="")
    for message in messages:
        own.record(own.context.add_message(message), at=1)
    return own


def opened(text: str) -> UnfinishedMessage:
    message = UnfinishedMessage("m")
    message.add_text(text, now=0)
    return message


def told(group: Group) -> list[dict[str, Any]]:
    return [decode_event(out.entry.data) for out in group.entries if out.entry.type != "context"]


def test_open_parts_are_sealed_then_calls_answered_then_the_end() -> None:
    call = ToolCall(id="c1", name="t", arguments="{}")
    own = recorder(Message.assistant(None, tool_calls=(call,)))
    event = {"type": "agent_error", "at": 2, "run": "r", "error": "boom"}
    group = last_group(own, event, [opened("so far")], patched=True)
    sealed, answered, end = told(group)
    assert (sealed["type"], sealed["content"], sealed["metadata"]) == (
        "assistant_message",
        "so far",
        {"interrupted": True},
    )
    assert (answered["type"], answered["tool_call_id"]) == ("tool_result", "c1")
    assert end == event
    assert [out.entry.kind for out in group.entries if out.entry.type != "context"] == ["e", "h", "x"]
    assert group.log is not None
    assert (group.log.first, group.log.next) == (1, 3)


def test_completed_runs_open_part_is_not_interrupted() -> None:
    group = last_group(recorder(), {"type": "agent_complete", "at": 2, "run": "r"}, [opened("all")], patched=True)
    assert told(group)[0]["metadata"] == {}


def test_end_alone_moves_no_log() -> None:
    call = ToolCall(id="c1", name="t", arguments="{}")
    own = recorder(Message.assistant(None, tool_calls=(call,)))
    group = last_group(own, {"type": "agent_error", "at": 2, "run": "r", "error": "full"}, (), patched=False)
    assert [event["type"] for event in told(group)] == ["agent_error"]
    assert group.log is None


def test_end_that_cannot_be_told_says_so() -> None:
    for kind, field in (("agent_complete", "result"), ("agent_error", "error"), ("agent_cancelled", "reason")):
        group = last_group(recorder(), {"type": kind, "at": 2, "run": "r", field: "x" * 200_000}, (), patched=True)
        (end,) = told(group)
        assert end["type"] == kind
        assert end[field].startswith("not published")


def test_large_texts_of_a_part_are_stored_apart() -> None:
    message = Message.assistant("x" * 200_000, thinking="y" * 200_000)
    event = decode_event(seal(recorder(), message, at=1, message_id="m", run="lost")[0].entry.data)
    assert (event["run"], event["message"]) == ("lost", "m")
    assert {pointer: blob["bytes"] for pointer, blob in event["blobs"].items()} == {
        "/content": 200_000,
        "/thinking": 200_000,
    }


def test_part_too_large_is_cut() -> None:
    # Numbers: only texts are stored apart.
    message = Message.assistant("x" * 9_000, thinking="y" * 9_000, metadata={"numbers": list(range(40_000))})
    event = decode_event(seal(recorder(), message, at=1, message_id="m", run="lost")[0].entry.data)
    assert (event["run"], event["message"]) == ("lost", "m")
    assert (len(event["content"]), len(event["thinking"])) == (MAX_CUT_CHARACTERS, MAX_CUT_CHARACTERS)
    assert event["metadata"] == {"interrupted": True, "truncated": True}

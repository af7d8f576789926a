from typing import Any

from hypothesis import given

from gateway.context.event import Event
from gateway.context.fold import Fold, message_data, message_type, project
from gateway.context.jsonlike import native
from gateway.context.messages import Message
from gateway.context.times import now

from .strategies import MESSAGES


def logged(message: Any) -> Any:
    return Event(seq=0, type=message_type(message), time=message.created_at, data=native(message_data(message)))


@given(MESSAGES)
def test_project_gives_back_what_was_logged(message: Any) -> None:
    assert project(logged(message)) == message


def test_message_data_names_what_every_role_has() -> None:
    assert message_data(Message.user("a")) == {"content": "a", "name": None, "metadata": {}}
    assert message_data(Message.assistant("a")).keys() == {"content", "name", "metadata", "tool_calls", "thinking"}
    assert message_data(Message.tool("c", "a"))["tool_call_id"] == "c"
    assert message_data(Message(role="developer", content="a"))["role"] == "developer"


def test_message_type_of_a_foreign_role() -> None:
    assert message_type(Message(role="developer")) == "custom_message"


def test_project_never_shows_the_source() -> None:
    event = Event(seq=0, type="user_message", time=now(), data={"content": "a", "source": "memory"})
    assert project(event) == Message(role="user", content="a", created_at=event.time)


def test_extended_leaves_the_shorter_fold_as_it_was() -> None:
    events = [Event(seq=seq, type="user_message", time=now(), data={"content": str(seq)}) for seq in range(3)]
    short = Fold().extended(events[:2])
    long = short.extended(events[2:])
    replaced = short.extended(
        [Event(seq=2, type="system_message", time=now(), data={"content": "s", "surface_op": ["replace", 0, 1]})]
    )
    assert [m.content for m in short.messages] == ["0", "1"]
    assert [m.content for m in long.messages] == ["0", "1", "2"]
    assert [m.content for m in replaced.messages] == ["s"]
    assert [fold.event(0).seq for fold in (short, long, replaced)] == [0, 0, 2]

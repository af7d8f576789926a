from typing import Any

import pytest

from gateway.context.content import ContentPart
from gateway.waiting import WaitingMessage, WaitingMessages


def queued(name: str, content: Any = "hello", **more: Any) -> dict[str, Any]:
    return {"type": "message_queued", "id": name, "content": content, "by": "ann", **more}


def ids(messages: WaitingMessages) -> list[str]:
    return [message.id for message in messages]


def test_message_enters_the_context_as_it_was_sent() -> None:
    message = WaitingMessage.of(queued("m1")).message()
    assert (message.role, message.text, message.metadata) == ("user", "hello", {"by": "ann"})
    parts = WaitingMessage.of(queued("m2", [{"type": "text", "text": "look"}], by=None)).message()
    assert (parts.content, parts.metadata) == ((ContentPart.of_text("look"),), {})


def test_conditions_name_the_message_as_it_waits() -> None:
    message = WaitingMessage.of(queued("m1", "hé"))
    assert (message.condition.field, message.condition.op, message.condition.value) == ("m:m1", "=", '"hé"')
    assert (message.removal.field, message.removal.value) == ("m:m1", "")
    edited = message.edited('"other"')
    assert (edited.content, edited.stored, edited.by) == ("other", '"other"', "ann")


def test_messages_follow_the_events_of_the_topic() -> None:
    waiting = WaitingMessages([queued("m1"), queued("m2")])
    new = waiting.heard(queued("m3"))
    assert new is not None
    assert (new.id, ids(waiting)) == ("m3", ["m1", "m2", "m3"])
    assert waiting.heard(queued("m3", "again")) is None
    waiting.heard({"type": "message_edited", "id": "m1", "content": "better", "by": "bob"})
    waiting.heard({"type": "message_withdrawn", "id": "m2"})
    waiting.heard({"type": "message_taken", "id": "m3"})
    (left,) = waiting
    assert (left.id, left.content, left.by, len(waiting)) == ("m1", "better", "ann", 1)


@pytest.mark.parametrize("event", [{"type": "message_queued"}, {"type": "message_edited", "id": "m9", "content": "x"}])
def test_events_about_nothing_change_nothing(event: dict[str, Any]) -> None:
    waiting = WaitingMessages([queued("m1")])
    assert waiting.heard(event) is None
    assert ids(waiting) == ["m1"]


def test_update_takes_what_the_store_says() -> None:
    waiting = WaitingMessages([queued("m1"), queued("m2")])
    first, second = waiting
    waiting.update(first, '"edited"')
    waiting.update(second, "")
    assert [(message.id, message.content) for message in waiting] == [("m1", "edited")]
    waiting.update(second, '"late"')
    assert ids(waiting) == ["m1"]

"""Messages that are still being written."""

from gateway.open_messages import OpenMessages
from gateway.state import OpenCall, OpenMessage


def test_texts_grow_apart() -> None:
    messages = OpenMessages()
    messages.add_thinking("m", "r", "hm\r")
    messages.add_text("m", "r", "a")
    messages.add_thinking("m", "r", "\n…")
    messages.add_to_call("m", "r", 2, call_id="c", name=None, text="{")
    messages.add_to_call("m", "r", 2, call_id=None, name="f", text=None)
    assert messages.state() == [
        {
            "message": "m",
            "run": "r",
            "text": "a",
            "thinking": "hm\r\n…",
            "interrupted": False,
            "tool_calls": [{"index": 2, "id": "c", "name": "f", "text": "{"}],
        }
    ]


def test_state_does_not_grow_with_the_text() -> None:
    messages = OpenMessages()
    messages.add_text("m", None, "a")
    before = messages.state()
    messages.add_text("m", None, "b")
    assert (before[0]["text"], messages.state()[0]["text"]) == ("a", "ab")


def test_end_and_interrupt() -> None:
    messages = OpenMessages()
    for name, run in (("a", "r1"), ("b", "r2"), ("c", None)):
        messages.add_text(name, run, "x")
    messages.interrupt({"r2"})
    messages.end("a")
    messages.end("never opened")
    assert [(message["message"], message["interrupted"]) for message in messages.state()] == [("b", True), ("c", False)]


def test_restored_messages_grow_on() -> None:
    messages = OpenMessages()
    messages.restore([OpenMessage(message="m", text="a", interrupted=True, tool_calls=[OpenCall(index=0, text="[")])])
    messages.add_text("m", "other", "b")
    messages.add_to_call("m", "other", 0, call_id=None, name=None, text="]")
    (message,) = messages.state()
    assert (message["text"], message["run"], message["interrupted"]) == ("ab", None, True)
    assert message["tool_calls"] == [{"index": 0, "id": None, "name": None, "text": "[]"}]

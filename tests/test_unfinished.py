import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.context.messages import Message, ToolCall
from gateway.errors import EventRefusedError
from gateway.unfinished import UnfinishedMessage, UnfinishedMessages, in_text, sealed, whole


def test_half_a_character_waits_for_its_other_half() -> None:
    opened = UnfinishedMessage("m")
    assert opened.add_text("a\ud83d", now=0) == "a"
    assert opened.add_text("\ude00b", now=0) == "😀b"
    assert opened.seal(interrupted=False).content == "a😀b"


def test_half_that_stays_alone_is_replaced_at_the_end() -> None:
    opened = UnfinishedMessage("m")
    assert opened.add_text("a\ud83d", now=0) == "a"
    assert opened.seal(interrupted=True).content == "a\ufffd"


def test_parts_keep_their_halves_apart() -> None:
    opened = UnfinishedMessage("m")
    opened.add_thinking("\ud83d", now=0)
    assert opened.add_text("x", now=0) == "x"
    assert opened.add_thinking("\ude00", now=0) == "😀"


@given(st.text(alphabet=st.characters(codec="utf-16", categories=["L", "So", "Mn"]), max_size=20), st.data())
def test_any_cut_of_utf_16_gives_the_text_again(text: str, data: st.DataObject) -> None:
    units = [
        text.encode("utf-16-le")[i : i + 2].decode("utf-16-le", "surrogatepass")
        for i in range(0, len(text.encode("utf-16-le")), 2)
    ]
    opened, got = UnfinishedMessage("m"), []
    while units:
        count = data.draw(st.integers(1, len(units)))
        got.append(opened.add_text("".join(units[:count]), now=0))
        units = units[count:]
    assert "".join(got) == text
    for piece in got:
        piece.encode()


@pytest.mark.parametrize(("text", "expected"), [("\ud83d\ude00", "😀"), ("\ude00x", "\ufffdx"), ("ü", "ü")])
def test_whole_joins_pairs_and_replaces_halves(text: str, expected: str) -> None:
    assert whole(text) == expected


def test_thinking_is_timed_until_the_answer_begins() -> None:
    opened = UnfinishedMessage("m")
    assert opened.thinking_ms is None
    opened.add_thinking("hm", now=1.0)
    opened.add_thinking("hm", now=2.0)
    opened.add_text("so", now=3.5)
    opened.add_text("so", now=9.0)
    assert opened.thinking_ms == 2500
    assert opened.seal(interrupted=False).metadata == {"thinking_ms": 2500}


@pytest.mark.parametrize("arguments", ["", "{", '{"path": "a', '{"a":1}}', "[1]", "null", '"x"'])
def test_partial_tool_call_is_never_a_call(arguments: str) -> None:
    message = sealed(text="t", thinking="", calls=[("c1", "delete", arguments)], interrupted=True)
    assert message.tool_calls is None
    partial = message.metadata["partial_tool_calls"]
    assert partial == [{"id": "c1", "name": "delete", "arguments": arguments}]


def test_every_prefix_of_a_call_is_partial_and_the_whole_is_a_call() -> None:
    arguments = '{"path": "/tmp/a{b}", "deep": {"x": [1, "}"]}}'
    for end in range(len(arguments)):
        assert sealed(text="", thinking="", calls=[("c", "t", arguments[:end])], interrupted=True).tool_calls is None
    message = sealed(text="", thinking="", calls=[("c", "t", arguments)], interrupted=True)
    assert message.tool_calls == (ToolCall(id="c", name="t", arguments=arguments),)


def test_call_without_a_name_is_partial() -> None:
    message = sealed(text="", thinking="", calls=[("c", None, "{}")], interrupted=True)
    assert message.tool_calls is None


def test_seal_keeps_text_thinking_and_calls_in_order() -> None:
    opened = UnfinishedMessage("m")
    opened.add_thinking("why", now=0)
    opened.add_text("because", now=0)
    opened.add_call(1, "{}", {"id": "b", "name": "u"}, now=0)
    opened.add_call(0, '{"x":', {"id": "a", "name": "t"}, now=0)
    opened.add_call(0, "1}", {}, now=0)
    message = opened.seal(interrupted=True)
    assert (message.content, message.thinking) == ("because", "why")
    assert [(call.id, call.arguments) for call in message.tool_calls or ()] == [("a", '{"x":1}'), ("b", "{}")]
    assert message.metadata["interrupted"] is True


def test_opened_gives_the_newest_message_until_it_ends() -> None:
    messages = UnfinishedMessages()
    first = messages.opened(None)
    assert messages.opened(None) is first
    assert messages.newest == first.id
    messages.close(first.id)
    assert messages.newest is None
    assert messages.last == first.id
    assert messages.opened(None).id != first.id


def test_ended_message_is_not_opened_again() -> None:
    messages = UnfinishedMessages()
    messages.close("m1")
    with pytest.raises(EventRefusedError, match="has ended"):
        messages.opened("m1")


@pytest.mark.parametrize("name", ["a b", "ü", "x" * 1001])
def test_message_id_that_the_store_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(EventRefusedError, match="visible ASCII"):
        UnfinishedMessages().opened(name)


def test_messages_without_content_are_passed_over() -> None:
    messages = UnfinishedMessages()
    messages.opened("empty")
    messages.opened("full").add_text("x", now=0)
    assert [opened.id for opened in messages] == ["full"]


def test_in_text_writes_arguments_as_json_text() -> None:
    message = Message.assistant(
        "a\ud83d",
        thinking="\ud83d\ude00",
        tool_calls=(ToolCall(id="1", arguments={"b": 1, "a": "ü"}), ToolCall(id="2"), ToolCall(id="3", arguments="{")),
    )
    done = in_text(message)
    assert (done.content, done.thinking) == ("a\ufffd", "😀")
    assert [call.arguments for call in done.tool_calls or ()] == ['{"b":1,"a":"ü"}', "{}", "{"]

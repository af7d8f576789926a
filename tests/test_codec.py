"""The entry rules, and decoding what comes from outside."""

import enum
import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.codec import MAX_DEPTH, MAX_EVENT_BYTES, decode_event, encode_event, encode_json
from gateway.errors import EventRefusedError
from gateway.event_types import LOGGED_TYPES


def _nested(depth: int, *, lists: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return value


class _Level(enum.StrEnum):
    INFO = "info"


# encode_event


def test_encode_is_one_line_of_plain_utf8() -> None:
    data = encode_event({"type": "x", "text": "é\n🚀\u2028\x00\x7f"})
    assert b"\n" not in data
    assert "é".encode() in data
    assert "🚀".encode() in data
    assert json.loads(data) == {"type": "x", "text": "é\n🚀\u2028\x00\x7f"}


@pytest.mark.parametrize("lists", [True, False])
def test_encode_depth(*, lists: bool) -> None:
    assert encode_event({"a": _nested(MAX_DEPTH - 1, lists=lists)})
    with pytest.raises(EventRefusedError, match="nesting"):
        encode_event({"a": _nested(MAX_DEPTH, lists=lists)})
    with pytest.raises(EventRefusedError, match="nesting"):
        encode_event({"a": _nested(100_000, lists=lists)})


@pytest.mark.parametrize("number", [2**53 - 1, -(2**53) + 1, 0, 1.0, 1e300, -0.0, 5e-324])
def test_encode_numbers(number: float) -> None:
    assert json.loads(encode_event({"n": number, "in": [number]})) == {"n": number, "in": [number]}


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**64, 10**400, float("nan"), float("inf"), float("-inf")])
def test_encode_numbers_that_no_browser_holds(number: float) -> None:
    for event in ({"n": number}, {"n": [number]}, {"n": {"deep": [number]}}):
        with pytest.raises(EventRefusedError):
            encode_event(event)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ud800", "\ufffd"),
        ("a\udfffb", "a\ufffdb"),
        ("\ud83d\ude80", "🚀"),
        ("\ude80\ud83d", "\ufffd\ufffd"),
        ("\ud83d🚀\ude80", "\ufffd🚀\ufffd"),
    ],
)
def test_encode_lone_surrogates(text: str, expected: str) -> None:
    event = {"type": "x", "text": text, "in": [{"k" + text: text}]}
    assert json.loads(encode_event(event)) == {"type": "x", "text": expected, "in": [{"k" + expected: expected}]}
    assert event["text"] == text


@pytest.mark.parametrize(
    "event",
    [
        {"__proto__": 1},
        {"a": {"__proto__": 1}},
        {"a": [{"b": {"__proto__": None}}]},
        {1: "a"},
        {"a": {1: "a", "1": "b"}},
        {"a": {None: 1}},
        {chr(0xD800): 1, chr(0xD801): 2},
        {"a": [{chr(0xD800): 1, chr(0xFFFD): 2}]},
    ],
    ids=repr,
)
def test_encode_keys_that_two_languages_cannot_hold_alike(event: Any) -> None:
    with pytest.raises(EventRefusedError):
        encode_event(event)


def test_encode_takes_the_word_proto_in_texts() -> None:
    assert json.loads(encode_event({"text": "__proto__"})) == {"text": "__proto__"}


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), 1j, MappingProxyType({}), print])
def test_encode_what_is_no_json(value: Any) -> None:
    for event in ({"v": value}, {"v": [value]}):
        with pytest.raises(EventRefusedError, match="JSON"):
            encode_event(event)


def test_encode_tuples_enums_and_mappings() -> None:
    event = MappingProxyType({"op": ("replace", 0, 1), "level": _Level.INFO})
    assert encode_event(event) == b'{"op":["replace",0,1],"level":"info"}'


@pytest.mark.parametrize("kind", sorted(LOGGED_TYPES))
@pytest.mark.parametrize("seq", [None, -1, "0", True, 1.5, 2**53])
def test_encode_logged_needs_seq(kind: str, seq: Any) -> None:
    with pytest.raises(EventRefusedError, match="seq"):
        encode_event({"type": kind, "content": "a"})
    with pytest.raises(EventRefusedError, match="seq"):
        encode_event({"type": kind, "seq": seq})
    assert encode_event({"type": kind, "seq": 0})


@pytest.mark.parametrize("kind", ["agent_delta", "agent_thinking", "tool_call_delta"])
def test_encode_empty_delta(kind: str) -> None:
    with pytest.raises(EventRefusedError, match="without text"):
        encode_event({"type": kind, "message": "m", "index": 0, "text": ""})
    assert encode_event({"type": kind, "message": "m", "index": 0, "text": "a"})


def test_encode_tool_call_delta_that_only_names_its_call() -> None:
    assert encode_event({"type": "tool_call_delta", "message": "m", "index": 0, "id": "c", "name": "f", "text": ""})


@pytest.mark.parametrize("text", ["x", "é", "🚀", "\x00", '"'])
def test_encode_size(text: str) -> None:
    room = (MAX_EVENT_BYTES - len(encode_event({"t": "."})) + 1) // (len(encode_event({"t": text})) - 8)
    assert len(encode_event({"t": text * room})) <= MAX_EVENT_BYTES
    with pytest.raises(EventRefusedError, match=str(MAX_EVENT_BYTES)):
        encode_event({"t": text * (room + 1)})


# decode_event


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{}", {}),
        (b' {"a" : [1, 2.50, null, true]}\r\n', {"a": [1, 2.5, None, True]}),
        (b'{"a":"\\ud800"}', {"a": "\ufffd"}),
        (b'{"a":"\\ud83d\\ude80","b":"\\ude80\\ud83d"}', {"a": "🚀", "b": "\ufffd\ufffd"}),
        (b'{"a":1E2}', {"a": 100}),
        (b'{"a":"b\\nc"}', {"a": "b\nc"}),
        (b'{"a":{"b":1},"b":{"b":1}}', {"a": {"b": 1}, "b": {"b": 1}}),
    ],
)
def test_decode(data: bytes, expected: dict[str, Any]) -> None:
    assert decode_event(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"a"',
        b"1",
        b"{}{}",
        b'{"a":1,"a":1}',
        b'{"a":{"b":1,"b":2}}',
        b'{"a":[{"b":1, "b":2}]}',
        b'{"a":1,"\\u0061":2}',
        b'{"\\ud800":1,"\\ud801":2}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":01}',
        b"{'a':1}",
        b'{"a":"b\nc"}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' + b"9" * 5000 + b"}",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_decode_refuses(data: bytes) -> None:
    with pytest.raises(EventRefusedError):
        decode_event(data)


@given(st.binary() | st.text().map(str.encode))
def test_decode_gives_an_object_or_refuses(data: bytes) -> None:
    try:
        event = decode_event(data)
    except EventRefusedError:
        return
    assert event == json.loads(data)


_ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs", "Lu"]))
)
_VALUES = st.recursive(
    _ATOMS, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("__proto__"), inner), max_leaves=20
)


@given(st.dictionaries(st.text(), _VALUES))
def test_encode_gives_what_decodes_again_or_refuses(event: dict[str, Any]) -> None:
    try:
        data = encode_event(event)
    except EventRefusedError:
        return
    again = decode_event(data)
    assert encode_event(again) == data
    assert b"\n" not in data
    assert json.loads(data) == again


# encode_json


def test_encode_json_any_value() -> None:
    assert encode_json({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()
    assert encode_json("a\ud800") == '"a\ufffd"'.encode()
    assert encode_json([("\ud83d\ude80",), {"k\udc00": None}]) == '[["🚀"],{"k\ufffd":null}]'.encode()

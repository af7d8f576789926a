"""Frames encoded and decoded."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import CommandError, ErrorCode
from gateway.frames import (
    PIECE_BYTES,
    Command,
    SubscribeRequest,
    decode_frame,
    encode_error,
    encode_push,
    encode_reply,
    frame_payloads,
    publication_line,
    publication_of,
    push_prefix,
    split_text,
    text_frame,
    text_frames,
    with_tags,
)


def test_decode_frame_reads_a_subscribe() -> None:
    (command,) = decode_frame(
        b'{"id":3,"subscribe":{"channel":"t","recover":true,"epoch":"aaaaaaaa","offset":7,"flag":3,"unknown":[1],'
        b'"data":{"mirror":true},"token":null}}'
    )
    request = command.request
    assert isinstance(request, SubscribeRequest)
    assert (request.channel, request.recover, request.epoch, request.offset) == ("t", True, "aaaaaaaa", 7)
    assert request.mirror
    assert request.refuse_unrecovered


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"\ud83d"', "\ufffd"),
        (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
        (rb'"\ud83d\ude00\ud83d"', "\U0001f600\ufffd"),
        (rb'"\\ud83d"', "\\ud83d"),
        (rb'"\\\ud83dx"', "\\\ufffdx"),
        (rb'"\uD83Dx\u00e4"', "\ufffdxä"),
    ],
)
def test_decode_frame_replaces_lone_surrogates(text: bytes, value: str) -> None:
    (command,) = decode_frame(b'{"id":1,"publish":{"channel":"t","data":{"a":' + text + b"}}}")
    assert msgspec.json.decode(command.request.data)["a"] == value  # type: ignore[union-attr]


def test_encode_reply_and_error() -> None:
    command = Command(id=4, method="rpc")
    assert encode_reply(command, {"data": msgspec.Raw(b'{"x":1}')}) == b'{"id":4,"rpc":{"data":{"x":1}}}'
    error = CommandError(ErrorCode.NOT_AVAILABLE, "no")
    assert encode_error(command, error) == b'{"id":4,"error":{"code":108,"message":"no"}}'
    error = CommandError(ErrorCode.INTERNAL, "away")
    assert encode_error(command, error) == b'{"id":4,"error":{"code":100,"message":"away","temporary":true}}'


def test_encode_push_names_its_channel_where_it_has_one() -> None:
    assert encode_push("message", {"data": 1}) == b'{"push":{"message":{"data":1}}}'
    assert encode_push("pub", {"data": 1}, channel="t") == b'{"push":{"channel":"t","pub":{"data":1}}}'


def test_push_lines_are_composed_cut_and_tagged() -> None:
    prefix = push_prefix("a:b")
    line = publication_line(prefix, 12, b'{"n":1}')
    assert line == b'{"push":{"channel":"a:b","pub":{"data":{"n":1},"offset":12}}}'
    assert publication_of(prefix, line) == b'{"data":{"n":1},"offset":12}'
    tagged = with_tags(line, 7)
    assert msgspec.json.decode(tagged)["push"]["pub"] == {"data": {"n": 1}, "offset": 12, "tags": {"from": "7"}}


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.binary(max_size=200_000), min_size=1, max_size=4))
def test_text_frames_can_be_taken_apart(payloads: list[bytes]) -> None:
    assert frame_payloads(b"".join(text_frame(payload) for payload in payloads)) == payloads


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.integers(1, 2 * PIECE_BYTES), max_size=12))
def test_text_frames_are_bounded_and_keep_every_line(sizes: list[int]) -> None:
    lines = [b"x" * size for size in sizes]
    frames = frame_payloads(text_frames(lines))
    assert [line for frame in frames for line in frame.split(b"\n")] == lines
    for frame in frames:
        assert len(frame) <= PIECE_BYTES or b"\n" not in frame


@settings(deadline=None)  # the machine may be busy
@given(st.text(), st.integers(4, 20))
def test_split_text_cuts_between_characters(text: str, size: int) -> None:
    parts = split_text(text.encode(), size)
    assert "".join(parts) == text
    assert all(0 < len(part.encode()) <= size for part in parts)

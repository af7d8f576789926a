"""Frames from clients: RFC 6455 section 5, RFC 7692, and the bounds."""

import os
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from gateway.incoming import CLOSE, PING, PONG, TEXT, FrameReader, FrameRefusedError

BINARY = 2
LIMIT = 1000


def frame(opcode: int, payload: bytes, *, fin: bool = True, rsv1: bool = False) -> bytes:
    """Encode a client's frame with the library that clients use."""
    data = Frame(Opcode(opcode), payload, fin=fin).serialize(mask=True)
    return bytes((data[0] | 0x40,)) + data[1:] if rsv1 else bytes(data)


def deflated(payload: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return (deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]


def read(data: bytes, *, deflate: bool = False) -> list[tuple[int, bytes]]:
    return list(FrameReader(max_message=LIMIT, deflate=deflate).feed(data))


def refusal(data: bytes, *, deflate: bool = False) -> int:
    with pytest.raises(FrameRefusedError) as caught:
        read(data, deflate=deflate)
    return caught.value.code


messages = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([TEXT, BINARY]), st.lists(st.binary(max_size=300), min_size=1, max_size=3)),
        st.tuples(st.sampled_from([PING, PONG]), st.lists(st.binary(max_size=125), min_size=1, max_size=1)),
    ),
    max_size=8,
)


@given(messages, st.data())
@settings(deadline=None)
def test_any_cut_gives_the_same_messages(sent: list[tuple[int, list[bytes]]], data: st.DataObject) -> None:
    stream, expected = b"", []
    for opcode, parts in sent:
        for index, part in enumerate(parts):
            stream += frame(opcode if index == 0 else 0, part, fin=index == len(parts) - 1)
        expected.append((opcode, b"".join(parts)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = FrameReader(max_message=LIMIT, deflate=False)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += list(reader.feed(stream[start:end]))
    assert found == expected


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 999, 1000])
def test_lengths_of_every_form(size: int) -> None:
    payload = os.urandom(size)
    assert read(frame(BINARY, payload)) == [(BINARY, payload)]


def test_long_lengths_in_single_bytes() -> None:
    reader = FrameReader(max_message=70_000, deflate=False)
    payload = os.urandom(66_000)
    stream = frame(BINARY, payload)
    found = []
    for index in range(20):
        found += list(reader.feed(stream[index : index + 1]))
    assert found == []
    assert list(reader.feed(stream[20:])) == [(BINARY, payload)]


def test_control_frames_come_between_fragments() -> None:
    stream = frame(TEXT, b"a", fin=False) + frame(PING, b"!") + frame(0, b"b", fin=False) + frame(PONG, b"")
    assert read(stream + frame(0, b"c")) == [(PING, b"!"), (PONG, b""), (TEXT, b"abc")]


def test_what_stands_before_a_broken_frame_is_given() -> None:
    reader = FrameReader(max_message=LIMIT, deflate=False)
    found = reader.feed(frame(TEXT, b"whole") + b"\xf1\x80")
    assert next(found) == (TEXT, b"whole")
    with pytest.raises(FrameRefusedError, match="reserved bits"):
        next(found)


def test_fragments_are_bounded_in_number() -> None:
    most = 1000 + LIMIT // 16
    fragments = frame(TEXT, b"a", fin=False) + frame(0, b"", fin=False) * (most - 1)
    assert refusal(fragments + frame(0, b"b")) == 1009
    whole = fragments[: -len(frame(0, b""))] + frame(0, b"b")
    assert read(whole * 2) == [(TEXT, b"ab")] * 2


@pytest.mark.parametrize("bits", [0x40, 0x20, 0x10, 0x70])
@pytest.mark.parametrize("opcode", [TEXT, CLOSE, PING])
def test_reserved_bits_are_refused(bits: int, opcode: int) -> None:
    data = frame(opcode, b"")
    assert refusal(bytes((data[0] | bits,)) + data[1:]) == 1002


@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
def test_unknown_opcodes_are_refused(opcode: int) -> None:
    assert refusal(bytes((0x80 | opcode, 0x80, 0, 0, 0, 0))) == 1002


def test_unmasked_frames_are_refused() -> None:
    assert refusal(b"\x81\x01a") == 1002


@pytest.mark.parametrize("opcode", [CLOSE, PING, PONG])
def test_control_frames_are_whole_and_short(opcode: int) -> None:
    assert refusal(bytes((opcode, 0x80, 0, 0, 0, 0))) == 1002
    assert refusal(bytes((0x80 | opcode, 0xFE, 0, 126, 0, 0, 0, 0))) == 1002


def test_fragments_follow_each_other() -> None:
    assert refusal(frame(0, b"a")) == 1002
    assert refusal(frame(TEXT, b"a", fin=False) + frame(TEXT, b"b")) == 1002
    assert refusal(frame(TEXT, b"a", fin=False) + frame(0, b"b") + frame(0, b"c")) == 1002


def test_a_message_too_big_is_refused_by_its_header() -> None:
    assert refusal(bytes((0x81, 0xFE, *(LIMIT + 1).to_bytes(2), 0, 0, 0, 0))) == 1009
    assert refusal(bytes((0x81, 0xFF, *(2**63 - 1).to_bytes(8), 0, 0, 0, 0))) == 1009
    half = b"x" * (LIMIT // 2)
    assert refusal(frame(TEXT, half, fin=False) + frame(0, half, fin=False) + frame(0, b"x", fin=False)) == 1009


def test_compressed_messages_are_read_whole_and_in_fragments() -> None:
    packed = deflated(b"hello " * 50)
    whole = frame(TEXT, packed, rsv1=True)
    pieces = frame(TEXT, packed[:3], fin=False, rsv1=True) + frame(PING, b"") + frame(0, packed[3:])
    plain = frame(TEXT, b"plain")
    expected = (TEXT, b"hello " * 50)
    assert read(whole + pieces + plain, deflate=True) == [expected, (PING, b""), expected, (TEXT, b"plain")]


def test_compression_is_refused_where_it_was_not_negotiated_or_has_no_place() -> None:
    assert refusal(frame(TEXT, deflated(b"x"), rsv1=True)) == 1002
    assert refusal(frame(PING, b"", rsv1=True), deflate=True) == 1002
    assert refusal(frame(TEXT, b"", fin=False) + frame(0, b"", rsv1=True), deflate=True) == 1002


def test_a_bomb_stops_at_the_limit() -> None:
    bomb = deflated(b"\0" * 900_000)
    assert len(bomb) < LIMIT
    assert refusal(frame(TEXT, bomb, rsv1=True), deflate=True) == 1009
    assert read(frame(TEXT, deflated(b"\0" * LIMIT), rsv1=True), deflate=True) == [(TEXT, b"\0" * LIMIT)]


def test_broken_compression_is_refused() -> None:
    assert refusal(frame(TEXT, b"\xff\xff\xff", rsv1=True), deflate=True) == 1007


@given(st.binary(max_size=200), st.booleans())
@settings(deadline=None)
def test_any_bytes_give_messages_or_a_refusal(data: bytes, deflate: bool) -> None:  # noqa: FBT001  # hypothesis fills it
    code, reason, found = 1002, "", []
    try:
        found = read(data, deflate=deflate)
    except FrameRefusedError as error:
        code, reason = error.code, error.reason
    assert code in {1002, 1007, 1009}
    assert len(reason) <= 120
    assert all(len(payload) <= LIMIT for _, payload in found)

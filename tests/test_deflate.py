"""One compressed frame for all."""

import zlib

from gateway.deflate import SharedDeflate
from gateway.frames import text_frame, text_frames


def inflated(frame: bytes) -> bytes:
    """Read one server frame as a client with permessage-deflate does."""
    length, start = frame[1], 2
    if length == 126:
        length, start = int.from_bytes(frame[2:4]), 4
    assert len(frame) == start + length
    payload = frame[start:]
    return zlib.decompressobj(wbits=-15).decompress(payload + b"\0\0\xff\xff") if frame[0] & 0x40 else payload


def test_a_frame_is_compressed_once_for_the_same_object() -> None:
    deflate = SharedDeflate()
    frames = text_frame(b'{"text":"' + b"again and " * 200 + b'"}')
    packed = deflate(frames, 100)
    assert packed[0] == 0xC1
    assert len(packed) < len(frames) / 5
    assert inflated(packed) == frames[4:]
    assert deflate(frames, 100) is packed


def test_every_frame_has_a_window_of_its_own() -> None:
    lines = [b"x" * 60_000, b"y" * 60_000]
    packed = SharedDeflate()(text_frames(lines), 100)
    second = packed.index(b"\xc1", 2)
    assert inflated(packed[second:]) == lines[1]
    assert inflated(packed[:second]) == lines[0]


def test_small_frames_among_large_ones_stay_as_they_are() -> None:
    small, large = text_frame(b"{}"), text_frame(b"z" * 500)
    packed = SharedDeflate()(small + large, 100)
    assert packed.startswith(small)
    assert inflated(packed[len(small) :]) == b"z" * 500


def test_what_is_kept_is_bounded_and_never_another_s() -> None:
    deflate = SharedDeflate()
    for number in range(200):
        payload = b"%d" % number * 200
        assert inflated(deflate(text_frame(payload), 10)) == payload
    assert len(deflate._kept) == 16

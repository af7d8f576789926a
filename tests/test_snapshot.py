"""A snapshot in one frame, or in parts."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.frames import MAX_FRAME, frame_payloads
from gateway.snapshot import Snapshot


def snapshot(mirror: dict[str, str], topic: str = "t") -> Snapshot:
    text = msgspec.json.encode({"topic": topic, "epoch": "aaaaaaaa", "offset": 7, "mirror": mirror})
    return Snapshot(topic=topic, epoch="aaaaaaaa", offset=7, text=text)


def test_small_one_is_whole() -> None:
    small = snapshot({"x": "y"})
    assert small.whole
    (frame,) = small.frames()
    push = msgspec.json.decode(frame_payloads(frame)[0])["push"]
    assert push["channel"] == "t"
    assert push["pub"] == {
        "data": {"type": "snapshot", "topic": "t", "epoch": "aaaaaaaa", "offset": 7, "mirror": {"x": "y"}}
    }
    assert msgspec.json.decode(msgspec.json.encode(small.in_reply))["mirror"] == {"x": "y"}


@settings(deadline=None)  # the machine may be busy
@given(st.sampled_from(['"', "\\", "x", "ü", "😀", '\x00"', "\x7f"]), st.integers(120_000, 400_000))
def test_parts_are_bounded_and_join_to_the_whole(letter: str, count: int) -> None:
    large = snapshot({"x": letter * count}, topic="t" * 200)
    parts = [frame_payloads(frame)[0] for frame in large.frames()]
    assert all(len(part) <= MAX_FRAME for part in parts)
    if large.whole:
        assert len(parts) == 1
        return
    pubs = [msgspec.json.decode(part)["push"]["pub"]["data"] for part in parts]
    assert large.in_reply == {"parts": len(parts)}
    assert [pub["part"] for pub in pubs] == list(range(1, len(parts) + 1))
    assert "".join(pub["text"] for pub in pubs).encode() == large.text


def test_largest_whole_one_fits_a_frame() -> None:
    size = MAX_FRAME - 4 * 1024
    frame = snapshot({"x": ""}, topic="t" * 200)
    room = size - frame.size
    full = snapshot({"x": "y" * room}, topic="t" * 200)
    assert full.whole
    assert full.size == size
    assert len(full.frames()[0]) <= MAX_FRAME
    assert not snapshot({"x": "y" * (room + 1)}, topic="t" * 200).whole

"""What a topic makes of publications: order, overlap, holes, held ones, other epochs."""

from gateway.frames import publication_line
from gateway.recovery import Missed
from gateway.ring import RingBudget
from gateway.topic import HELD_BYTES, HubTopic
from gateway.types import Position, Topic


def payload(first: int, last: int | None = None, *, epoch: str = "aaaaaaaa", data: bytes = b"{}") -> bytes:
    last = first if last is None else last
    prefix = b'{"push":{"channel":"t","pub":'
    lines = [publication_line(prefix, offset, data) for offset in range(first, last + 1)]
    return f"{epoch} {first} {last} {','.join('x' for _ in lines)}\n".encode() + b"\n".join(lines)


def unread() -> HubTopic:
    return HubTopic(Topic("t"), "gw:t", RingBudget(10_000_000))


def topic(top: int = 0) -> HubTopic:
    made = unread()
    made.restart("aaaaaaaa", top)
    assert made.release()
    return made


def test_hear_takes_what_follows_and_only_once() -> None:
    made = topic(3)
    assert made.hear(payload(4)) == "new"
    assert made.hear(payload(4)) == "nothing"
    assert made.hear(payload(3, 6)) == "new"
    assert made.ring.offsets == [4, 5, 6]
    assert made.position == Position(epoch="aaaaaaaa", offset=6)


def test_hear_tells_a_hole_and_another_epoch() -> None:
    made = topic(3)
    assert made.hear(payload(5)) == "gap"
    assert made.hear(payload(4, epoch="bbbbbbbb")) == "gap"
    assert made.ring.end == 3


def test_held_publications_are_taken_when_the_history_was_read() -> None:
    made = unread()
    assert made.hear(payload(2)) == made.hear(payload(3)) == made.hear(payload(4)) == "nothing"
    made.restart("aaaaaaaa", 2)
    assert made.release()
    assert made.ring.offsets == [3, 4]


def test_release_asks_again_where_a_hole_is_left() -> None:
    made = topic(1)
    made.hold()
    made.hear(payload(4))
    assert not made.release()
    assert made.hear(payload(5)) == "nothing"
    made.extend([Missed(first=2, offset=2, data=b"{}"), Missed(first=3, offset=4, data=b"{}")])
    assert made.release()
    assert made.ring.offsets == [2, 4, 5]
    assert [made.ring.first(index) for index in range(3)] == [2, 3, 5]


def test_release_asks_again_after_distrust() -> None:
    made = topic(1)
    made.hold()
    made.distrust()
    assert not made.release()
    assert made.release()


def test_held_publications_are_bounded() -> None:
    made = topic(0)
    made.hold()
    data = b'{"x":"' + b"y" * 100_000 + b'"}'
    for offset in range(1, 3 + HELD_BYTES // len(data)):
        assert made.hear(payload(offset, data=data)) == "nothing"
    assert made._held == []
    assert not made.release()
    assert made.ring.end == 0


def test_restart_forgets_the_old_history() -> None:
    made = topic(0)
    made.hear(payload(1, 3))
    generation = made.generation
    made.restart("bbbbbbbb", 7)
    assert made.generation > generation
    assert made.position == Position(epoch="bbbbbbbb", offset=7)
    assert made.ring.budget.used == 0
    assert made.hear(payload(8, epoch="bbbbbbbb")) == "new"
    assert made.hear(payload(9)) == "gap"

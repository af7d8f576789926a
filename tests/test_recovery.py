"""The verdict on a position, and what follows from it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.port import History, Stored
from gateway.recovery import Missed, judge, missed_after, publication, take
from gateway.types import START, Position


def history(*offsets: int, complete: bool = True, top: int | None = None) -> History:
    events = tuple(Stored(offset=offset, data=b"{}") for offset in offsets)
    top = top if top is not None else max(offsets, default=0)
    return History(
        epoch="aaaaaaaa",
        top=top,
        floor=0,
        complete=complete,
        snapshot=None,
        snapshot_position=None,
        events=events,
        upto=top,
        size=0,
        seq=0,
        hash="",
    )


def test_judge_lets_go_on_with_everything_above() -> None:
    missed = judge(Position(epoch="aaaaaaaa", offset=2), history(3, 4))
    assert missed == [Missed(first=3, offset=3, data=b"{}"), Missed(first=4, offset=4, data=b"{}")]
    assert judge(START, history()) == []


def test_judge_spans_holes_of_compacted_deltas() -> None:
    missed = judge(Position(epoch="aaaaaaaa", offset=2), history(5, 6, 9))
    assert missed is not None
    assert [(event.first, event.offset) for event in missed] == [(3, 5), (6, 6), (7, 9)]
    assert publication(missed[0], {"n": 1}).first == 3
    assert publication(missed[1], {"n": 1}).first is None


def test_judge_refuses_what_may_not_go_on() -> None:
    assert judge(Position(epoch="bbbbbbbb", offset=2), history(3, complete=False)) is None
    assert judge(Position(epoch="aaaaaaaa", offset=9), history(top=8)) is None


def test_missed_after_skips_an_overlap() -> None:
    events = [Stored(offset=offset, data=b"{}") for offset in (1, 2, 4)]
    assert [(event.first, event.offset) for event in missed_after(2, events)] == [(3, 4)]


def test_take_fits_the_size_and_is_never_none() -> None:
    missed = [Missed(first=n, offset=n, data=b"x" * 10) for n in range(1, 6)]
    assert take(missed, 25) == 2
    assert take(missed, 1) == 1
    assert take(missed, 1000) == 5
    assert take([], 10) == 0


@settings(deadline=None)  # the machine may be busy
@given(st.sets(st.integers(1, 60)), st.integers(0, 60))
def test_missed_after_leaves_no_hole(offsets: set[int], cursor: int) -> None:
    events = [Stored(offset=offset, data=b"{}") for offset in sorted(offsets)]
    at = cursor
    for event in missed_after(cursor, events):
        assert event.first == at + 1 <= event.offset
        at = event.offset
    assert at == max([cursor, *offsets])

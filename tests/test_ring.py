"""The last events of a topic, and the budget of all of them."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.frames import publication_line, push_prefix
from gateway.recovery import Missed
from gateway.ring import Ring, RingBudget

PREFIX = push_prefix("t")


def ring(limit: int = 1_000_000) -> Ring:
    return Ring(PREFIX, RingBudget(limit))


def put(target: Ring, *offsets: int, data: bytes = b"{}") -> None:
    for offset in offsets:
        target.append(offset, publication_line(PREFIX, offset, data))


def read(target: Ring, cursor: int, size: int = 1_000_000) -> tuple[list[tuple[int, int]], int]:
    """Give (first, offset) of the lines above a cursor."""
    lines, last = target.since(cursor, size)
    found = []
    for line in lines:
        pub = msgspec.json.decode(line)["push"]["pub"]
        found.append((int(pub.get("tags", {}).get("from", pub["offset"])), pub["offset"]))
    return found, last


def test_since_gives_what_is_above_a_cursor() -> None:
    target = ring()
    put(target, 1, 2, 3)
    assert read(target, 1) == ([(2, 2), (3, 3)], 3)
    assert read(target, 3) == ([], 3)


def test_since_is_bounded_and_gives_at_least_one() -> None:
    target = ring()
    put(target, 1, 2, 3, data=b'{"x":"' + b"y" * 1000 + b'"}')
    assert read(target, 0, 1)[1] == 1
    assert read(target, 0, 2600)[1] == 2


def test_line_over_a_hole_says_where_it_begins_for_each_reader() -> None:
    target = ring()
    put(target, 1, 5)
    assert read(target, 0) == ([(1, 1), (2, 5)], 5)
    assert read(target, 1) == ([(2, 5)], 5)
    assert read(target, 3) == ([(4, 5)], 5)
    assert read(target, 4) == ([(5, 5)], 5)


def test_prepend_extends_backwards() -> None:
    target = ring()
    target.clear(4)
    put(target, 5, 6)
    assert not target.reaches(1)
    target.prepend(1, [Missed(first=2, offset=3, data=b"{}"), Missed(first=4, offset=4, data=b"{}")])
    assert target.reaches(1)
    assert read(target, 1) == ([(2, 3), (4, 4), (5, 5), (6, 6)], 6)
    assert target.bytes_since(1) == target.size == target.budget.used


def test_prepend_of_what_does_not_meet_the_ring_changes_nothing() -> None:
    target = ring()
    target.clear(4)
    put(target, 5, 6)
    target.prepend(1, [Missed(first=2, offset=3, data=b"{}")])
    target.prepend(1, [Missed(first=2, offset=6, data=b"{}")])
    target.prepend(1, [])
    assert target.start == 4
    assert read(target, 4) == ([(5, 5), (6, 6)], 6)


def test_budget_takes_from_the_ring_read_longest_ago() -> None:
    budget = RingBudget(3000)
    old, new = Ring(PREFIX, budget), Ring(PREFIX, budget)
    put(old, *range(1, 7))
    put(new, *range(1, 8))
    assert budget.used <= 3000
    assert len(new) == 7
    assert len(old) < 6
    assert old.end == 6
    assert old.reaches(6)
    assert not old.reaches(0)
    put(new, *range(8, 40))
    assert len(old) == 0
    assert budget.used <= 3000
    budget.forget(new)
    assert budget.used == 0


def test_budget_smaller_than_one_line_keeps_nothing() -> None:
    target = ring(10)
    put(target, 1, 2)
    assert (target.start, target.end, len(target), target.budget.used) == (2, 2, 0, 0)


@settings(deadline=None)  # the machine may be busy
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=120),
    st.integers(400, 30_000),
    st.lists(st.integers(0, 400), min_size=1, max_size=10),
    st.integers(1, 4000),
)
def test_reader_at_any_cursor_sees_no_hole(steps: list[int], limit: int, cursors: list[int], size: int) -> None:
    target = ring(limit)
    offset = 0
    for step in steps:
        offset += step
        put(target, offset)
        assert target.budget.used == target.size <= limit
    for start in cursors:
        cursor = start
        if not target.reaches(cursor) or cursor > target.end:
            continue
        while cursor < target.end:
            found, last = read(target, cursor, size)
            for first, place in found:
                assert first == cursor + 1 <= place
                cursor = place
            assert cursor == last
        assert cursor == target.end


def test_budget_spares_what_was_used_since_it_last_looked() -> None:
    budget = RingBudget(20_000)
    rings = [Ring(PREFIX, budget) for _ in range(3)]
    offset = 0
    while len(rings[1]) == offset:
        offset += 1
        for each in rings:
            put(each, offset)
    # All had been used alike, so that each lost something. From now on only the last is.
    before = [len(each) for each in rings]
    for later in range(offset + 1, offset + 40):
        put(rings[2], later)
    assert budget.used <= 20_000
    assert len(rings[2]) > before[2]
    assert len(rings[0]) < before[0]
    assert len(rings[1]) < before[1]


def test_room_is_made_for_many_lines_and_not_by_one_ring_alone() -> None:
    budget = RingBudget(1_000_000)
    rings = [Ring(PREFIX, budget) for _ in range(40)]
    offset, peak = 0, 0
    while budget.used >= peak:
        peak = budget.used
        offset += 1
        put(rings[offset % 40], offset)
    assert 1_000_000 * 30 // 32 < budget.used <= 1_000_000 * 31 // 32
    lengths = [len(each) for each in rings]
    assert min(lengths) > max(lengths) // 2

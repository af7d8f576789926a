"""What ends at a time, and may be put off."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.expiry import Expiries


def test_what_has_ended_is_taken_out_once_earliest_first() -> None:
    expiries: Expiries[str] = Expiries()
    expiries.set("b", 2)
    expiries.set("a", 1)
    expiries.set("c", 3)
    assert expiries.take(0.5) == []
    assert expiries.take(2) == ["a", "b"]
    assert expiries.take(2) == []
    assert len(expiries) == 1


def test_what_is_put_off_ends_later_and_what_never_ends_not_at_all() -> None:
    expiries: Expiries[str] = Expiries()
    for key in ("later", "sooner", "never"):
        expiries.set(key, 10)
    expiries.set("later", 20)
    expiries.set("sooner", 5)
    expiries.set("never", None)
    expiries.set("unknown", None)
    assert expiries.take(5) == ["sooner"]
    assert expiries.take(19) == []
    assert expiries.take(20) == ["later"]
    assert len(expiries) == 0


def test_putting_off_for_ever_fills_nothing() -> None:
    expiries: Expiries[str] = Expiries()
    for at in range(1000):
        expiries.set("a", at)
    assert len(expiries._heap) == 1


def test_what_has_gone_is_forgotten_before_its_time() -> None:
    expiries: Expiries[int] = Expiries()
    for key in range(10_000):
        expiries.set(key, 1e9)
        if key != 77:
            expiries.set(key, None)
    assert len(expiries) == 1
    assert len(expiries._heap) < 1100
    assert expiries.take(2e9) == [77]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 20), st.integers(0, 5))))
def test_it_is_what_a_table_of_times_says(steps: list[tuple[str, int | None, int]]) -> None:
    expiries: Expiries[str] = Expiries()
    table: dict[str, int] = {}
    now = 0
    for key, at, step in steps:
        expiries.set(key, at)
        if at is None:
            table.pop(key, None)
        else:
            table[key] = at
        now += step
        ended = {name for name, end in table.items() if end <= now}
        assert set(expiries.take(now)) == ended
        for name in ended:
            del table[name]
        assert len(expiries) == len(table)

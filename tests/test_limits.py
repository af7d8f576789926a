"""How much one caller may use."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.limits import MAX_BUCKETS, Allowance, Allowances, Limits, Tally
from gateway.settings import Settings


def test_allowance_gives_a_burst_and_then_its_rate() -> None:
    allowance = Allowance(rate=2, burst=5)
    assert [allowance.take(100.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [allowance.take(100.5) for _ in range(2)] == [True, False]
    assert [allowance.take(200.0) for _ in range(6)] == [True] * 5 + [False]


def test_allowance_without_a_rate_counts_nothing() -> None:
    allowance = Allowance(rate=0, burst=1)
    assert all(allowance.take(0.0) for _ in range(100))


def test_allowances_are_of_each_and_bounded() -> None:
    allowances = Allowances(rate=1, burst=2)
    assert [allowances.take("ann", 100.0) for _ in range(3)] == [True, True, False]
    assert allowances.take("bob", 100.0)
    assert all(allowances.take("", 100.0) for _ in range(5))
    for number in range(MAX_BUCKETS):
        allowances.take(str(number), 100.0)
    assert (len(allowances), allowances.refusals) == (MAX_BUCKETS, 1)


@given(st.floats(0.1, 50), st.integers(1, 20), st.lists(st.floats(0, 3), max_size=80))
def test_allowance_never_gives_more_than_burst_and_rate(rate: float, burst: int, steps: list[float]) -> None:
    allowance, now, given_ = Allowance(rate=rate, burst=burst), 50.0, 0
    for step in steps:
        now += step
        given_ += allowance.take(now)
    assert given_ <= burst + (now - 50.0) * rate + 1e-6


def test_tally_counts_each_by_itself() -> None:
    tally = Tally(2)
    assert [tally.take("ann") for _ in range(3)] == [True, True, False]
    assert tally.take("bob")
    tally.give_back("ann")
    assert tally.take("ann")
    assert not tally.take("ann")


def test_tally_forgets_who_has_nothing() -> None:
    tally = Tally(5)
    for who in ("ann", "ann", "bob"):
        tally.take(who)
    tally.give_back("ann", 2)
    tally.give_back("bob")
    tally.give_back("carl")
    assert len(tally) == 0


def test_tally_without_a_limit_or_a_name_counts_nothing() -> None:
    tally = Tally(0)
    assert all(tally.take("ann") for _ in range(10))
    assert len(tally) == 0
    assert all(Tally(1).take("") for _ in range(10))


def test_limits_come_from_the_settings() -> None:
    limits = Limits(Settings(max_connections_per_user=1, max_connections_per_address=2, max_topics_per_user=3))
    assert limits.connections_of_user.limit == 1
    assert limits.connections_of_address.limit == 2
    assert limits.topics_of_user.limit == 3

"""The seven counters."""

from gateway.counters import COUNTERS, MAX_COUNT, no_usage, plus, read_usage


def test_read_usage_takes_what_counts() -> None:
    counters = read_usage({"requests": 2.0, "input_tokens": MAX_COUNT, "output_tokens": MAX_COUNT + 1, "other": 5})
    assert counters == {**no_usage(), "requests": 2, "input_tokens": MAX_COUNT}
    assert tuple(counters) == COUNTERS


def test_plus_makes_a_new_one() -> None:
    one = {**no_usage(), "requests": 3}
    assert plus(one, {**no_usage(), "tool_calls": 1}, less={**no_usage(), "requests": 1}) == {
        **no_usage(),
        "requests": 2,
        "tool_calls": 1,
    }
    assert one["requests"] == 3

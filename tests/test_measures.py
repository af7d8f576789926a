"""What is counted: histograms."""

from gateway.measures import Histogram


def test_a_value_is_in_the_first_range_that_it_is_not_above() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5, 100.0):
        histogram.add(value)
    assert histogram.counts == [2, 2, 2]
    assert histogram.total == 107.5

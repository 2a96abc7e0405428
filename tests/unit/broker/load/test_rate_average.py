"""The average rate of a counter follows the counter, and forgets."""

from math import exp

import pytest

from tidemill.broker.load.rate_average import RateAverage

SECOND_US = 1_000_000
WINDOW_US = 30 * SECOND_US


def test_the_first_sample_is_the_average() -> None:
    """The average does not begin at zero: it would take minutes to reach a rate that lasts from the beginning."""
    average = RateAverage(1_000, SECOND_US)
    before = (average.per_second, average.is_known)

    average.sample(6_000, 11 * SECOND_US, WINDOW_US)

    assert (0, False) == before
    assert (500, True) == (average.per_second, average.is_known)


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_the_weight_of_the_past_depends_on_time_alone(steps: int) -> None:
    """A rate that ended one window ago has 1/e of its weight, however many samples were taken since."""
    average = RateAverage(0, 0)
    average.sample(10_000_000, 10 * SECOND_US, WINDOW_US)

    for step in range(1, steps + 1):
        average.sample(10_000_000, 10 * SECOND_US + WINDOW_US * step // steps, WINDOW_US)

    assert average.per_second == pytest.approx(1_000_000 * exp(-1), rel=1e-4)


def test_the_average_of_a_counter_that_rests_becomes_zero() -> None:
    """A whole number that is rounded to the nearest one would stay at one for ever."""
    average = RateAverage(0, 0)
    average.sample(50, 10 * SECOND_US, WINDOW_US)

    for step in range(2, 30):
        average.sample(50, step * 10 * SECOND_US, WINDOW_US)

    assert 0 == average.per_second


def test_a_sample_without_time_is_ignored() -> None:
    """Two samples at the same time have no rate; what was counted is in the next sample."""
    average = RateAverage(0, 0)

    average.sample(500, 0, WINDOW_US)
    average.sample(500, SECOND_US, WINDOW_US)

    assert 500 == average.per_second

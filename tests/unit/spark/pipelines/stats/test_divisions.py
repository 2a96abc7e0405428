"""How axes are divided: time steps, size bins, and ticks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.spark.pipelines.stats import axis_ticks, size_bins
from tidemill.spark.pipelines.stats.steps_of_time import STEPS_MAX, step_length

TIMES = st.integers(-(10**11), 10**11)
SIZES = st.integers(0, 1 << 31)


@given(TIMES, TIMES, st.sampled_from([1, 7, 60, 300, 3_600, 86_400]))
def test_the_steps_of_a_chart_can_be_seen(one: int, other: int, counted_s: int) -> None:
    """
    A chart has at most STEPS_MAX steps, and each step is a multiple of the interval in which records were counted.
    """
    first, last = min(one, other), max(one, other)

    length = step_length(first, last, counted_s)

    assert 0 == length % counted_s
    assert last // length - first // length + 1 <= STEPS_MAX


def test_a_year_is_drawn_by_day() -> None:
    """
    A year of records is drawn with one step per day, so that weekly patterns are visible.
    """
    assert 86_400 == step_length(1_357_000_000, 1_357_000_000 + 365 * 86_400, 60)


@given(SIZES, SIZES)
def test_every_size_has_a_bin(one: int, other: int) -> None:
    """
    The bins cover every size from the smallest to the largest, and their number is limited.
    """
    smallest, largest = min(one, other), max(one, other)

    edges = size_bins.edges(smallest, largest)

    assert edges[0] <= smallest and largest < edges[-1]
    assert all(low < high for low, high in pairwise(edges))
    assert len(edges) - 1 <= size_bins.BINS_MAX + 2


@pytest.mark.parametrize(("sizes", "is_logarithmic"), [((200, 310), False), ((0, 8), False), ((5, 1 << 20), True)])
def test_sizes_that_differ_much_have_a_logarithmic_axis(sizes: tuple[int, int], is_logarithmic: bool) -> None:
    """
    Sizes within a factor of eight get bins of equal width; sizes that differ more are shown on a logarithmic axis.
    """
    widths = {high - low for low, high in pairwise(size_bins.edges(*sizes))}

    assert is_logarithmic == size_bins.is_logarithmic(*sizes) == (len(widths) > 1)


@given(st.floats(1e-9, 1e15), st.booleans())
def test_the_value_axis_ends_at_a_tick(largest: float, is_size: bool) -> None:
    """
    The value axis begins at 0 and ends at a tick at or above the largest value, and has few ticks.
    """
    ticks = axis_ticks.value_ticks(largest, is_size=is_size)

    assert 0 == ticks[0] and largest <= ticks[-1] * (1 + 1e-9)
    assert 2 <= len(ticks) <= 6


def test_the_ticks_are_round() -> None:
    """
    The ticks of counts are round decimal numbers, and those of sizes are round binary numbers.
    """
    assert [0, 25, 50, 75, 100] == axis_ticks.value_ticks(86.5, is_size=False)
    assert [0, 1 << 15, 1 << 16, 3 << 15, 1 << 17] == axis_ticks.value_ticks(123_456, is_size=True)
    assert [0, 1] == axis_ticks.value_ticks(0, is_size=False)
    assert [0, 50, 100, 150, 200, 250] == axis_ticks.whole_numbers(-0.5, 255.5, 6)
    assert [0, 1, 2] == axis_ticks.whole_numbers(-0.5, 2.5, 6)
    assert [0, 1, 16, 256, 4096, 65_536] == axis_ticks.powers_of_two(0, 1e6, 5)


NEW_YEAR_S = 1_356_998_400  # 1 Jan 2013 00:00 UTC


@pytest.mark.parametrize(
    ("first_s", "last_s", "labels"),
    [
        (NEW_YEAR_S, NEW_YEAR_S + 30, ["1 Jan", "00:00:10", "00:00:20", "00:00:30"]),
        (NEW_YEAR_S + 36_000, NEW_YEAR_S + 36_180, ["10:00", "10:01", "10:02", "10:03"]),
        (NEW_YEAR_S + 64_800, NEW_YEAR_S + 129_600, ["18:00", "2 Jan", "06:00", "12:00"]),
        (NEW_YEAR_S, NEW_YEAR_S + 4 * 86_400, ["1 Jan", "2 Jan", "3 Jan", "4 Jan", "5 Jan"]),
        (NEW_YEAR_S - 86_400, NEW_YEAR_S + 100 * 86_400, ["Jan 2013", "Feb", "Mar", "Apr"]),
        (NEW_YEAR_S, NEW_YEAR_S + 365 * 86_400, ["Jan 2013", "Apr", "Jul", "Oct", "Jan 2014"]),
        (NEW_YEAR_S - 86_400, NEW_YEAR_S + 8 * 366 * 86_400, ["2014", "2016", "2018", "2020"]),
    ],
)
def test_the_ticks_of_time_are_those_of_a_calendar(first_s: int, last_s: int, labels: list[str]) -> None:
    """
    A time axis has ticks at whole minutes, days, months or years, and shows the date where a new day begins.
    """
    assert labels == [label for _, label in axis_ticks.dates(first_s, last_s, 5)]


@given(st.integers(-(10**10), 10**11), st.integers(1, 10**10), st.integers(4, 12))
def test_an_axis_of_time_has_few_ticks(first_s: int, span_s: int, count_max: int) -> None:
    """
    The ticks of a time axis are within the axis and in order, and their number is limited.
    """
    ticks = axis_ticks.dates(first_s, first_s + span_s, count_max)

    places = [place for place, _ in ticks]
    assert sorted(set(places)) == places
    assert all(first_s <= place <= first_s + span_s for place in places)
    assert len(ticks) <= count_max + 1

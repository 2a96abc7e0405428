"""A histogram counts durations by buckets."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.telemetry.histogram import Histogram


@given(durations=st.lists(st.integers(0, 60), max_size=30).map(sorted))
def test_durations_that_ascend_are_counted_like_single_ones(durations: list[int]) -> None:
    bounds = (1, 2, 5, 50)
    single, together = Histogram(bounds, per_second=1_000), Histogram(bounds, per_second=1_000)
    for duration in durations:
        single.observe(duration)

    together.observe_all(durations)

    assert (single.counts, single.sum) == (together.counts, together.sum)

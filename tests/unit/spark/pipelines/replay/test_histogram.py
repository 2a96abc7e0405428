"""The histogram of record times in the plan of a replay."""

import pytest

from tidemill.spark.pipelines.replay.histogram import BAR_MAX, BUCKETS_MAX, bar, bucket_width_ms

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("span_ms", "width_ms"),
    [
        (0, 1_000),
        (47_000, 1_000),
        (48_000, 5_000),
        (DAY_MS - 1, 3_600_000),
        (7 * DAY_MS, 6 * 3_600_000),
        (364 * DAY_MS, 30 * DAY_MS),
    ],
)
def test_the_buckets_are_few_and_as_small_as_that_allows(span_ms, width_ms):
    assert width_ms == bucket_width_ms(0, span_ms)
    assert span_ms // width_ms < BUCKETS_MAX


def test_a_bar_is_in_proportion_and_never_empty():
    assert (1, 20, BAR_MAX) == tuple(len(bar(count, 1_000)) for count in (1, 500, 1_000))

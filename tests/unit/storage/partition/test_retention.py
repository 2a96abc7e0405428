"""Which segments retention removes, and which it keeps."""

import pytest

from tidemill.storage.partition.retention import SegmentAge, retained_from

NOW_MS = 1_000_000
SEGMENTS = [  # three segments of 100 B, written 900 s, 500 s and 100 s ago
    SegmentAge(10, 100, 100_000),
    SegmentAge(20, 100, 500_000),
    SegmentAge(30, 100, 900_000),
]


@pytest.mark.parametrize(
    ("retention_ms", "kept_from"),
    [(-1, None), (900_000, None), (899_999, 10), (500_000, 10), (499_999, 20), (99_999, 30), (0, 30)],
)
def test_a_segment_expires_when_its_newest_record_is_too_old(retention_ms: int, kept_from: int | None) -> None:
    """
    A segment expires when the clock minus its largest timestamp exceeds the retention time; -1 keeps all segments.
    """
    found = retained_from(SEGMENTS, high_watermark=30, now_ms=NOW_MS, retention_ms=retention_ms)

    assert kept_from == found


@pytest.mark.parametrize(
    ("retention_bytes", "kept_from"), [(-1, None), (300, None), (201, None), (200, 10), (101, 10), (100, 20), (0, 30)]
)
def test_the_oldest_expire_while_the_rest_is_large_enough(retention_bytes: int, kept_from: int | None) -> None:
    """The oldest segments expire as long as at least the retention size is left; -1 keeps all segments."""
    found = retained_from(SEGMENTS, high_watermark=30, now_ms=NOW_MS, retention_bytes=retention_bytes)

    assert kept_from == found


def test_uncommitted_segments_stay() -> None:
    """A segment is kept until the high watermark has reached its end."""
    found = retained_from(SEGMENTS, high_watermark=29, now_ms=NOW_MS, retention_ms=0, retention_bytes=0)

    assert 20 == found


def test_a_record_from_the_future_keeps_later_segments() -> None:
    """
    The search for expired segments ends at the first one that has not expired, so a record with a timestamp in the
    future also keeps all later segments.
    """
    segments = [SegmentAge(10, 100, NOW_MS + 1), *SEGMENTS[1:]]

    found = retained_from(segments, high_watermark=30, now_ms=NOW_MS, retention_ms=1)

    assert found is None


def test_records_without_a_timestamp_never_expire_by_time() -> None:
    """Records without a timestamp never expire by time, because their age is unknown, but their size counts."""
    segments = [SegmentAge(10, 100, -1), *SEGMENTS[1:]]

    by_time = retained_from(segments, high_watermark=30, now_ms=NOW_MS, retention_ms=1)
    by_size = retained_from(segments, high_watermark=30, now_ms=NOW_MS, retention_bytes=200)

    assert (None, 10) == (by_time, by_size)


def test_time_and_size_work_together() -> None:
    """Segments that have expired by time do not count towards the size."""
    found = retained_from(SEGMENTS, high_watermark=30, now_ms=NOW_MS, retention_ms=899_999, retention_bytes=100)

    assert 20 == found

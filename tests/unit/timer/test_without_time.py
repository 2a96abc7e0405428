"""Copies of released records that come back to a timer topic."""

from tidemill.batches.batch import read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.records import read_records
from tidemill.timer.without_time import TIMER_HEADERS, without_time


def test_a_copy_is_no_timer() -> None:
    """
    It keeps its other headers, and what makes a producer's batch exactly once.
    """
    headers = [("trace", b"1"), *((name, b"1") for name in sorted(TIMER_HEADERS)), ("trace", None)]
    batch = build_batch(
        [(b"k", b"v", headers, 5)],
        base_offset=9,
        leader_epoch=2,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
    )

    copy = without_time(batch)

    (record,) = read_records(copy)
    assert (b"k", b"v", (("trace", b"1"), ("trace", None)), 5) == (record.key, record.value, record.headers, 5)
    before, after = read_header(batch), read_header(copy)
    same = ("base_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "record_count")
    assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]

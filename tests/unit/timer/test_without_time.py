"""Copies of released records that come back to a timer topic."""

import pytest

from tests.unit.batches.record_bytes import append_record, raw_records
from tidemill.batches.batch import HEADER_BYTES, read_header
from tidemill.batches.builder import batch_of_encoded, build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.records import read_records
from tidemill.timer.without_time import TIMER_HEADERS, without_time


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_copy_is_no_timer(codec: Codec) -> None:
    """
    It keeps its other headers, and what makes a producer's batch exactly once.
    """
    headers = [("trace", b"1"), *((name, b"1") for name in sorted(TIMER_HEADERS)), ("trace", None)]
    batch = build_batch(
        [(b"k", b"v", headers, 5)],
        codec=codec,
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


def test_a_copy_has_the_bytes_of_the_record() -> None:
    """The name of a header may be any bytes."""
    others = [(b"\xff\xfe", None), (b"", b"\x80"), (b"\xff\xfe", b"")]
    batch = bytearray(HEADER_BYTES)
    append_record(batch, 0, 0, None, b"\xc3", [others[0], (b"tidemill-delay", b"1h"), *others[1:]])

    copy = without_time(batch_of_encoded(batch, 1, base_timestamp=5, max_timestamp=5))

    assert [(None, b"\xc3", others)] == raw_records(copy)

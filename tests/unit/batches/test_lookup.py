"""The last step of ListOffsets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.batches.drawn import record_lists
from tidemill.batches.batch import MalformedBatch
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.lookup import first_at_or_after


@settings(max_examples=40)
@given(records=record_lists, codec=st.sampled_from(list(Codec)), timestamp=st.integers(-1, 1 << 42))
def test_the_first_record_at_or_after_a_timestamp_is_found(scan, records, codec, timestamp):
    """The first by offset, whatever the order of the timestamps."""
    batch = b"noise" + build_batch(records, codec=codec, base_offset=30)

    found = first_at_or_after(batch, timestamp, position=5)

    late = [(30 + index, r.timestamp) for index, r in enumerate(records) if r.timestamp >= timestamp]
    assert found == (late[0] if late else None)


def test_under_log_append_time_it_is_the_first_record():
    """All records have the time of the batch."""
    batch = build_batch([(None, b"", (), 5), (None, b"", (), 9)], log_append_time=100, base_offset=30)

    assert (first_at_or_after(batch, 100), first_at_or_after(batch, 101)) == ((30, 100), None)


def test_a_cut_batch_is_refused():
    """Nothing is read beyond the buffer."""
    batch = build_batch([(None, b"value", (), 5)])

    with pytest.raises(MalformedBatch):
        first_at_or_after(batch[:-1], 0)

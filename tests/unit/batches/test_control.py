"""Reading the markers at the end of transactions."""

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch

from tidemill.batches.batch import MalformedBatch, read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.control import EndMarker, build_end_marker, coordinator_epoch_of, read_end_marker


@pytest.mark.parametrize(("marker", "theirs"), [(EndMarker.ABORT, ABORT_MARKER), (EndMarker.COMMIT, COMMIT_MARKER)])
def test_an_end_marker_tells_whether_the_transaction_committed(marker, theirs):
    """An end marker indicates whether the transaction committed, and aiokafka's consumer reads the same."""
    built = build_end_marker(marker, producer_id=5, producer_epoch=2, coordinator_epoch=8, timestamp=9, base_offset=70)

    record = next(iter(DefaultRecordBatch(bytes(built))))

    header = read_header(built)
    assert (marker, 8, theirs) == (read_end_marker(built), coordinator_epoch_of(built), ControlRecord.parse(record.key))
    assert (
        header.base_offset,
        header.end_offset,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_control,
        header.is_transactional,
    ) == (70, 71, 5, 2, -1, True, True)


def test_other_control_records_are_not_end_markers():
    """Control records of other types, such as type 2, KRaft's leader change, are not end markers."""
    built = build_batch([(b"\0\0\0\2", b"", (), 0)], is_control=True)

    assert read_end_marker(built) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_marker_without_a_type_is_refused(key):
    """A marker whose key is shorter than the four bytes of version and type is refused."""
    built = build_batch([(key, b"", (), 0)], is_control=True)

    with pytest.raises(MalformedBatch):
        read_end_marker(built)
    with pytest.raises(MalformedBatch):
        coordinator_epoch_of(built)

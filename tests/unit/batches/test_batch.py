"""Reading and writing the header of a batch."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.batches import batch
from tidemill.batches.builder import build_batch
from tidemill.batches.records import Record, read_records

RECORDS = [Record(b"k", b"v" * n, (), 1_000 + n) for n in range(3)]


def test_a_header_has_the_fields_with_which_the_batch_was_built():
    """The header's fields and derived properties agree with the arguments of `build_batch`."""
    built = build_batch(
        RECORDS, base_offset=40, leader_epoch=7, producer_id=9, producer_epoch=2, base_sequence=5, is_transactional=True
    )

    header = batch.read_header(built)

    assert (
        header.base_offset,
        header.leader_epoch,
        header.magic,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    ) == (40, 7, 2, 2, 1_000, 1_002, 9, 2, 5, 3)
    assert (43, len(built), 0, False, True, False) == (
        header.end_offset,
        header.size_bytes,
        header.codec,
        header.is_log_append_time,
        header.is_transactional,
        header.is_control,
    )


def test_a_header_is_read_as_it_was_written():
    """`write_header` is the inverse of `read_header`, at any position."""
    built = build_batch(RECORDS)
    room = bytearray(100)

    batch.write_header(room, batch.read_header(built), position=30)

    assert built[: batch.HEADER_BYTES] == room[30:91]


@given(base_offset=st.integers(0, (1 << 63) - 1), leader_epoch=st.integers(-1, (1 << 31) - 1))
def test_stamping_offset_and_epoch_does_not_change_the_crc_or_the_records(base_offset, leader_epoch):
    """The CRC covers neither the base offset nor the leader epoch, so changing them leaves it valid."""
    built = build_batch(RECORDS)
    room = bytearray(b"before") + built

    batch.stamp(room, base_offset, leader_epoch, position=6)

    header = batch.read_header(room, 6)
    assert (base_offset, leader_epoch, True) == (
        header.base_offset,
        header.leader_epoch,
        batch.crc_matches(room, 6),
    )
    assert built[16:] == room[22:]


def test_log_append_time_is_the_timestamp_of_every_record():
    """LogAppendTime replaces the timestamp of every record by changing only the header of the batch and its CRC."""
    built = build_batch(RECORDS)

    batch.stamp_log_append_time(built, 77)

    header = batch.read_header(built)
    assert (header.is_log_append_time, header.max_timestamp, batch.crc_matches(built)) == (True, 77, True)
    assert [record.timestamp for record in read_records(built)] == [77, 77, 77]


def test_spans_yield_complete_batches_only():
    """`spans` yields only complete batches, because a Fetch response may end in the middle of one."""
    first, second = build_batch(RECORDS), build_batch(RECORDS[:1], base_offset=3)
    buffer = bytes(first + second)

    found = [
        [(span.position, span.size, span.header.base_offset) for span in batch.spans(buffer[:end])]
        for end in (len(buffer), len(buffer) - 1, len(first) + 20, len(first), 5, 0)
    ]

    one = (0, len(first), 0)
    assert [[one, (len(first), len(second), 3)], [one], [one], [one], [], []] == found


@pytest.mark.parametrize("length", [-(1 << 31), -12, 0, 48])
def test_a_length_that_is_too_small_for_a_batch_is_refused(length):
    """A length smaller than any batch is refused, because the iteration over batches could stop advancing."""
    built = build_batch(RECORDS)
    struct.pack_into(">i", built, 8, length)

    with pytest.raises(batch.MalformedBatch, match="a header alone has 61"):
        list(batch.spans(built))


@pytest.mark.parametrize("length", [-1, 48, 1 << 30])
def test_the_crc_of_an_incomplete_batch_is_refused(length):
    """An incomplete batch is refused before its CRC is computed, so that nothing beyond the buffer is read."""
    built = build_batch(RECORDS)
    struct.pack_into(">i", built, 8, length)

    with pytest.raises(batch.MalformedBatch, match="does not fit"):
        batch.crc_matches(built)


def test_sequence_numbers_wrap_to_zero():
    """The sequence number after 2^31 - 1 is 0, as in Kafka's DefaultRecordBatch.incrementSequence."""
    built = build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=batch.SEQUENCE_MAX - 1)
    without = build_batch(RECORDS)

    found = (
        batch.add_sequence(batch.SEQUENCE_MAX, 1),
        batch.add_sequence(5, 3),
        batch.last_sequence(batch.read_header(built)),
        batch.last_sequence(batch.read_header(without)),
    )

    assert found == (0, 8, 0, batch.NO_SEQUENCE)

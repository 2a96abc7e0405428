"""The broker accepts only valid batches from a producer."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.batches.record_strategies import record_lists
from tidemill.batches.batch import read_header, stamp_crc, stamp_max_timestamp, stamp_only_record
from tidemill.batches.builder import build_batch
from tidemill.batches.check import BatchProblem, checked_header
from tidemill.batches.compression import Codec
from tidemill.batches.records import Record, read_records
from tidemill.model import errors

RECORDS = [Record(b"key", b"value", (("name", b"content"),), 1_000 + n) for n in range(3)]


def code_of(batch, **bounds):
    found = checked_header(batch, **bounds)
    if isinstance(found, BatchProblem):
        return errors.name(found.error_code)
    assert found == read_header(batch)
    return None


def altered(form, position, value, **built_with):
    """Return a batch with one field changed and a matching CRC."""
    batch = build_batch(RECORDS, **built_with)
    struct.pack_into(form, batch, position, value)
    stamp_crc(batch)
    return batch


@settings(max_examples=40)
@given(records=record_lists, codec=st.sampled_from(list(Codec)))
def test_a_valid_batch_is_accepted(scan, records, codec):
    """A valid batch is accepted with every codec and in every type of buffer."""
    batch = build_batch(records, codec=codec, producer_id=4, producer_epoch=0, base_sequence=0)

    found = [code_of(form(batch)) for form in (bytes, bytearray, memoryview)]

    assert found == [None, None, None]


def test_an_incomplete_batch_and_a_second_batch_are_refused():
    """An incomplete batch, or a second one for the same partition, is refused in a Produce request."""
    batch = bytes(build_batch(RECORDS))

    cut = {code_of(batch[:end]) for end in range(len(batch))}

    assert cut == {"CORRUPT_MESSAGE"}
    assert code_of(batch + batch) == "INVALID_RECORD"
    assert code_of(batch + b"\0") == "INVALID_RECORD"


def test_every_flipped_bit_is_detected():
    """A flipped bit anywhere from the CRC to the end of the batch is detected."""
    batch = build_batch(RECORDS)

    found = set()
    for position in range(17, len(batch)):
        batch[position] ^= 1
        found.add(code_of(batch))
        batch[position] ^= 1

    assert found == {"CORRUPT_MESSAGE"}


@pytest.mark.parametrize(
    ("magic", "code"),
    [(0, "UNSUPPORTED_FOR_MESSAGE_FORMAT"), (1, "UNSUPPORTED_FOR_MESSAGE_FORMAT"), (3, "CORRUPT_MESSAGE")],
)
def test_old_message_formats_are_refused_with_a_specific_error(magic, code):
    """An old message format is refused with a specific error, even if the message is shorter than the header of a
    batch.
    """
    batch = build_batch(RECORDS)
    batch[16] = magic

    assert code_of(batch) == code
    assert code_of(batch[:30]) == code if magic < 2 else "CORRUPT_MESSAGE"


@pytest.mark.parametrize(
    ("form", "position", "value", "code"),
    [
        (">q", 0, 1, "INVALID_RECORD"),  # the base offset, which must be 0
        (">q", 0, -1, "INVALID_RECORD"),
        (">i", 57, 0, "INVALID_RECORD"),  # the record count, which must be that of the records
        (">i", 57, -1, "INVALID_RECORD"),
        (">i", 57, 4, "INVALID_RECORD"),
        (">i", 23, 3, "INVALID_RECORD"),  # the last offset delta, which must be the record count less one
        (">i", 23, -1, "INVALID_RECORD"),
        (">h", 21, 0x20, "INVALID_RECORD"),  # the bit of control batches is set
        (">h", 21, 0x10, "INVALID_RECORD"),  # the bit of transactional batches is set, without a producer id
        (">h", 21, 0x08, "INVALID_TIMESTAMP"),  # the bit of LogAppendTime is set
        (">h", 21, 5, "UNSUPPORTED_COMPRESSION_TYPE"),
        (">h", 21, 7, "UNSUPPORTED_COMPRESSION_TYPE"),
        (">q", 43, 9, "INVALID_RECORD"),  # a producer id without epoch and sequence
        (">q", 35, 5, "INVALID_TIMESTAMP"),  # the max timestamp, which must be that of the records
        (">q", 27, (1 << 63) - 1, "INVALID_RECORD"),  # base timestamp: adding the deltas overflows int64
    ],
)
def test_an_invalid_header_field_is_refused(scan, form, position, value, code):
    """A batch is refused if any field of its header that a client sets is invalid."""
    assert code_of(altered(form, position, value)) == code


def test_a_record_count_that_contradicts_the_records_is_refused(scan):
    """A record count that agrees with the last offset delta is still refused if the scan finds more records."""
    batch = altered(">i", 57, 2)
    struct.pack_into(">i", batch, 23, 1)
    stamp_crc(batch)

    problem = checked_header(batch)

    assert isinstance(problem, BatchProblem)
    assert (problem.error_code, problem.message) == (
        errors.INVALID_RECORD,
        "record 2 of the batch: bytes follow the last record",
    )


@pytest.mark.parametrize(("epoch", "sequence"), [(-1, 0), (0, -1)])
def test_an_idempotent_producer_has_an_epoch_and_a_sequence(epoch, sequence):
    """
    With a producer id, a batch must have an epoch and a sequence; negative values, which mean "none", are refused.
    """
    batch = build_batch(RECORDS, producer_id=7, producer_epoch=epoch, base_sequence=sequence)

    assert code_of(batch) == "INVALID_RECORD"


def test_a_transactional_batch_with_a_producer_id_is_valid():
    """A transactional batch with a producer id is valid; the caller decides whether to accept it."""
    batch = build_batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)

    assert code_of(batch) is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_timestamps_outside_the_bounds_of_the_topic_are_refused(scan, codec):
    """Timestamps outside message.timestamp.before.max.ms and .after.max.ms are refused, unless LogAppendTime replaces
    them.
    """
    batch = build_batch(RECORDS, codec=codec)

    found = [
        code_of(batch, timestamp_min=1_000, timestamp_max=1_002),
        code_of(batch, timestamp_min=1_001),
        code_of(batch, timestamp_max=1_001),
        code_of(batch, timestamp_min=1_001, timestamp_max=1_001, is_log_append_time=True),
    ]

    assert found == [None, "INVALID_TIMESTAMP", "INVALID_TIMESTAMP", None]


def test_records_without_a_timestamp_are_not_too_early():
    """A timestamp of -1 means that there is none, so it is not checked against the topic's bounds."""
    batch = build_batch([Record(b"k", b"v")])

    assert code_of(batch, timestamp_min=1_000) is None


def test_a_wrong_max_timestamp_can_be_corrected(scan):
    """
    The reported problem contains the right max timestamp, so the caller can correct the header silently, as Kafka does.
    """
    batch = altered(">q", 35, -1)

    problem = checked_header(batch)

    assert isinstance(problem, BatchProblem)
    assert problem.max_timestamp == 1_002
    stamp_max_timestamp(batch, problem.max_timestamp)
    assert checked_header(batch) == read_header(batch)


def test_the_only_record_of_a_batch_gets_another_timestamp():
    """The batch stays valid, and so does its CRC, although the record had no timestamp."""
    batch = build_batch([Record(b"k", b"v")])

    stamp_only_record(batch, 7_000)

    assert checked_header(batch, timestamp_min=7_000, timestamp_max=7_000) == read_header(batch)
    assert [7_000] == [record.timestamp for record in read_records(batch)]


def test_zstd_is_refused_in_a_request_that_is_too_old():
    """A batch compressed with zstd is refused in a Produce request before v7 (KIP-110)."""
    batch = build_batch(RECORDS, codec=Codec.ZSTD)

    assert code_of(batch, is_zstd_allowed=False) == "UNSUPPORTED_COMPRESSION_TYPE"

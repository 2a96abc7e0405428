"""Checks whether a batch sent by a producer may be appended to the log.

A compressed batch that is stored as sent is never decompressed, so only its header is checked.  Uncompressed records
are scanned once, to make sure that consumers can read them.  Each check relies on the checks before it: first the size
of the batch, then the format, then the CRC, and finally the fields.
"""

from typing import NamedTuple

from tidemill.batches.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LENGTH_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    unpack_header,
)
from tidemill.batches.checksum import crc32c
from tidemill.batches.compression import Codec
from tidemill.batches.native import scan
from tidemill.model import errors

_check_records = scan.check_records
_ZSTD = int(Codec.ZSTD)
_new_header = tuple.__new__


class BatchProblem(NamedTuple):
    """The reason for rejecting a batch: Kafka's error code, and a message for the response."""

    error_code: int
    message: str
    max_timestamp: int | None = None  # set only if the header's max timestamp is wrong: the caller corrects it


def checked_header(
    batch: Buffer,
    *,
    timestamp_min: int | None = None,
    timestamp_max: int | None = None,
    is_log_append_time: bool = False,
    is_zstd_allowed: bool = True,
) -> BatchHeader | BatchProblem:
    """
    Return the header of `batch`, or the reason why the batch must be rejected.

    `batch` is the data of one partition in a Produce request.  `timestamp_min` and `timestamp_max` (milliseconds since
    the epoch) are the bounds that follow from `message.timestamp.before.max.ms` and `.after.max.ms`.  With
    `is_log_append_time`, neither these bounds nor the header's max timestamp is checked.

    The caller decides whether to accept transactional batches, and checks the producer's sequence numbers.
    """
    size = len(batch)
    if size < HEADER_BYTES:
        return _too_short(batch)
    numbers = unpack_header(batch)
    (
        base_offset,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        header_max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = numbers
    if magic != MAGIC:
        return _wrong_magic(magic)
    if base_offset:
        return BatchProblem(
            errors.INVALID_RECORD,
            f"the batch has base offset {base_offset}; a producer sends 0, and the broker sets it",
        )
    if batch_length + LENGTH_BYTES != size:
        return _wrong_size(batch_length + LENGTH_BYTES, size)
    if crc32c(memoryview(batch)[CRC_START:]) != crc:
        return BatchProblem(errors.CORRUPT_MESSAGE, f"the batch does not match the CRC {crc:#010x} in its header")
    if record_count < 1 or last_offset_delta != record_count - 1:
        return BatchProblem(
            errors.INVALID_RECORD,
            f"the batch has {record_count} records and the last offset delta {last_offset_delta}; "
            "it must have at least one record, and consecutive offsets",
        )
    if attributes & ~CODEC_MASK or producer_id >= 0:
        problem = _attributes_problem(attributes, producer_id, producer_epoch, base_sequence)
        if problem is not None:
            return problem
    codec = attributes & CODEC_MASK
    smallest, largest = base_timestamp, header_max_timestamp
    if codec == 0:
        wrong, index, smallest, largest = _check_records(batch, HEADER_BYTES, size, record_count, base_timestamp)
        if wrong:
            return BatchProblem(errors.INVALID_RECORD, f"record {index} of the batch: {scan.PROBLEMS[wrong]}")
    elif codec > _ZSTD or (codec == _ZSTD and not is_zstd_allowed):
        return BatchProblem(errors.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} cannot be used in this request")
    header = _new_header(BatchHeader, numbers)
    if is_log_append_time:
        return header
    if timestamp_max is not None and largest > timestamp_max:
        return BatchProblem(
            errors.INVALID_TIMESTAMP, f"timestamp {largest} is later than {timestamp_max}, the latest allowed"
        )
    if timestamp_min is not None and smallest < timestamp_min and smallest != NO_TIMESTAMP:
        return BatchProblem(
            errors.INVALID_TIMESTAMP, f"timestamp {smallest} is earlier than {timestamp_min}, the earliest allowed"
        )
    if largest != header_max_timestamp:
        return BatchProblem(
            errors.INVALID_TIMESTAMP,
            f"the header's max timestamp is {header_max_timestamp}, but that of the records is {largest}",
            max_timestamp=largest,
        )
    return header


def _too_short(batch: Buffer) -> BatchProblem:
    if len(batch) > MAGIC_POSITION and batch[MAGIC_POSITION] < MAGIC:
        return _wrong_magic(batch[MAGIC_POSITION])
    return BatchProblem(
        errors.CORRUPT_MESSAGE, f"{len(batch)} bytes are not a record batch: its header alone has {HEADER_BYTES}"
    )


def _wrong_magic(magic: int) -> BatchProblem:
    if magic in (0, 1):
        return BatchProblem(
            errors.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"message format v{magic} is not supported; send record batches (v2), as all clients since Kafka 0.11 do",
        )
    return BatchProblem(errors.CORRUPT_MESSAGE, f"magic {magic} is not a format of record batches")


def _wrong_size(claimed: int, size: int) -> BatchProblem:
    if HEADER_BYTES <= claimed < size:
        return BatchProblem(
            errors.INVALID_RECORD, f"expected one batch per partition, but {size - claimed} bytes follow the first"
        )
    return BatchProblem(errors.CORRUPT_MESSAGE, f"the batch's length says {claimed} bytes, but it has {size}")


def _attributes_problem(
    attributes: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> BatchProblem | None:
    if attributes & CONTROL:
        return BatchProblem(errors.INVALID_RECORD, "clients may not write control batches")
    if attributes & LOG_APPEND_TIME:
        return BatchProblem(
            errors.INVALID_TIMESTAMP, "only the broker may set a batch's timestamp type to LogAppendTime"
        )
    if producer_id >= 0 and (producer_epoch < 0 or base_sequence < 0):
        return BatchProblem(
            errors.INVALID_RECORD,
            f"producer id {producer_id} has epoch {producer_epoch} and sequence {base_sequence}; "
            "neither may be negative",
        )
    if attributes & TRANSACTIONAL and producer_id < 0:
        return BatchProblem(errors.INVALID_RECORD, "a transactional batch must have a producer id")
    return None

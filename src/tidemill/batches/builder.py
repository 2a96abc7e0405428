"""Builds record batches from records: those of HTTP clients, the broker's own (metadata, offsets, markers) and others.

`arrow.batches_from` builds batches from columns.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from tidemill.batches.batch import (
    CONTROL,
    HEADER_BYTES,
    LENGTH_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    stamp_crc,
    write_header,
)
from tidemill.batches.compression import Codec, compress
from tidemill.batches.native import scan
from tidemill.batches.records import Header, Record

RecordTuple = tuple[bytes | None, bytes | None, Sequence[Header], int]  # key, value, headers, timestamp
_timestamp = itemgetter(3)


def build_batch(
    records: Sequence[Record | RecordTuple],
    *,
    further: Iterable[Sequence[Record | RecordTuple]] = (),
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: int = Codec.NONE,
    level: int | None = None,
    log_append_time: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    """
    Return one batch with consecutive offsets, starting at `base_offset`.

    `further` are parts of its records that follow the first ones.  Each is encoded before the next one is requested, so
    that they need not be in memory together.  `log_append_time` (milliseconds since the epoch), if given, replaces the
    timestamps of all records.  Raise ValueError if there are no records, or if their timestamps are too far from each
    other.
    """
    if not records:
        raise ValueError("a batch holds at least one record")
    base_timestamp = records[0][3]
    max_timestamp, count = max(map(_timestamp, records)), len(records)
    batch = scan.encode_records(records, base_timestamp, HEADER_BYTES)
    for part in further:
        batch += scan.encode_records(part, base_timestamp, 0, count)
        max_timestamp, count = max(max_timestamp, max(map(_timestamp, part))), count + len(part)
    if log_append_time is not None:
        max_timestamp = log_append_time
    if codec != Codec.NONE:
        batch[HEADER_BYTES:] = compress(codec, memoryview(batch)[HEADER_BYTES:], level)
    attributes = (
        int(codec)
        | (LOG_APPEND_TIME if log_append_time is not None else 0)
        | (TRANSACTIONAL if is_transactional else 0)
        | (CONTROL if is_control else 0)
    )
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=len(batch) - LENGTH_BYTES,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    write_header(batch, header)
    stamp_crc(batch)
    return batch


def batch_of_encoded(
    batch: bytearray, record_count: int, *, base_timestamp: int, max_timestamp: int, attributes: int = Codec.NONE
) -> bytearray:
    """
    Write the header of a batch whose encoded records follow the space for it, and return the batch.  Timestamps are in
    milliseconds since the epoch.
    """
    header = BatchHeader(
        base_offset=0,
        batch_length=len(batch) - LENGTH_BYTES,
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=record_count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=record_count,
    )
    write_header(batch, header)
    stamp_crc(batch)
    return batch

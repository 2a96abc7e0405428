"""Builds record batches from records, for the broker's own records (metadata, offsets, markers), the CLI and tests.

The code is readable rather than fast; use `arrow.batches_from` for bulk data.
"""

from collections.abc import Sequence

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
from tidemill.batches.records import Header, Record

RecordTuple = tuple[bytes | None, bytes | None, Sequence[Header], int]  # key, value, headers, timestamp


def build_batch(
    records: Sequence[Record | RecordTuple],
    *,
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

    `log_append_time` (milliseconds since the epoch), if given, replaces the timestamps of all records.  Raise
    ValueError if there are no records.
    """
    if not records:
        raise ValueError("a batch holds at least one record")
    base_timestamp = records[0][3]
    max_timestamp = max(record[3] for record in records) if log_append_time is None else log_append_time
    body = bytearray()
    for offset_delta, record in enumerate(records):
        append_record(body, offset_delta, record[3] - base_timestamp, record[0], record[1], record[2])
    payload: bytes | bytearray = body if codec == Codec.NONE else compress(codec, body, level)
    attributes = (
        int(codec)
        | (LOG_APPEND_TIME if log_append_time is not None else 0)
        | (TRANSACTIONAL if is_transactional else 0)
        | (CONTROL if is_control else 0)
    )
    batch = bytearray(HEADER_BYTES)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_BYTES - LENGTH_BYTES + len(payload),
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    write_header(batch, header)
    batch += payload
    stamp_crc(batch)
    return batch


def append_record(
    body: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
) -> None:
    """Append one record, preceded by its length, to the records of a batch.  `timestamp_delta` is in milliseconds."""
    record = bytearray(1)  # attributes: none are defined
    append_varint(record, timestamp_delta)
    append_varint(record, offset_delta)
    _append_nullable(record, key)
    _append_nullable(record, value)
    append_varint(record, len(headers))
    for name, content in headers:
        _append_nullable(record, name.encode())
        _append_nullable(record, content)
    append_varint(body, len(record))
    body += record


def append_varint(body: bytearray, number: int) -> None:
    """Append an int32 or int64 as a varint: zigzag encoding, seven bits per byte, least significant bits first."""
    zigzag = number << 1 ^ number >> 63
    while zigzag > 0x7F:
        body.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    body.append(zigzag)


def _append_nullable(body: bytearray, content: bytes | None) -> None:
    if content is None:
        body.append(1)  # the varint of -1
    else:
        append_varint(body, len(content))
        body += content

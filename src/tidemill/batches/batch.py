"""The header of a record batch (Kafka's format v2), read and written in place.

A batch is a header of 61 bytes followed by the records, compressed or not.  The CRC covers all bytes from the
attributes to the end.  It does not cover the base offset and the leader epoch, so a leader can write these without
recomputing the CRC.

    0  base offset        int64      23  last offset delta  int32      51  producer epoch  int16
    8  batch length       int32      27  base timestamp     int64      53  base sequence   int32
    12 leader epoch       int32      35  max timestamp      int64      57  record count    int32
    16 magic              int8       43  producer id        int64      61  records
    17 CRC-32C of 21..    uint32
    21 attributes         int16: codec 0-2, timestamp type 3, transactional 4, control 5, delete horizon 6

Every function takes a contiguous buffer of bytes and the position of a batch in it; functions that write require a
writable buffer.  No function reads the records.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from tidemill.batches.checksum import JOINED_BYTES_MIN, crc32c, crc32c_joined

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
LENGTH_BYTES: Final = 12  # size of the fields base offset and batch length, which the batch length does not include
CRC_START: Final = 21  # position of the attributes: the first byte that the CRC covers
MAGIC_POSITION: Final = 16
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

_HEADER: Final = Struct(">qiibIhiqqqhii")
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_BASE_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP: Final = Struct(">q")
_LENGTH: Final = Struct(">i")

unpack_header = _HEADER.unpack_from  # for the hottest path: returns the fields of BatchHeader as a plain tuple
_pack_base_offset = _BASE_OFFSET.pack_into
_pack_leader_epoch = _LEADER_EPOCH.pack_into
_new_header = tuple.__new__


class MalformedBatch(ValueError):
    """The bytes are not a record batch, or their fields contradict each other."""


class BatchHeader(NamedTuple):
    """The fields of a batch header, in the order of the format."""

    base_offset: int
    batch_length: int  # bytes after this field
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def end_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch in bytes, including the header."""
        return self.batch_length + LENGTH_BYTES

    @property
    def codec(self) -> int:
        """The compression codec: a number from `compression.Codec`, or one of the unassigned numbers 5 to 7."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the max timestamp applies to every record, instead of the records' own timestamps."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position` without checking it.  Raise struct.error if fewer than 61 bytes are left."""
    return _new_header(BatchHeader, unpack_header(buffer, position))


def write_header(buffer: bytearray | memoryview, header: BatchHeader, position: int = 0) -> None:
    """Write `header` at `position`; the inverse of `read_header`."""
    _HEADER.pack_into(buffer, position, *header)


def stamp(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Write the base offset and leader epoch into the batch at `position`.  The CRC does not cover these fields."""
    _pack_base_offset(buffer, position, base_offset)
    _pack_leader_epoch(buffer, position + 12, leader_epoch)


def stamp_log_append_time(buffer: bytearray | memoryview, timestamp: int, position: int = 0) -> None:
    """
    Set the timestamp of all records to `timestamp` and update the CRC.

    This is done for topics with `message.timestamp.type=LogAppendTime`.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + CRC_START)
    _ATTRIBUTES.pack_into(buffer, position + CRC_START, attributes | LOG_APPEND_TIME)
    stamp_max_timestamp(buffer, timestamp, position)


def stamp_max_timestamp(buffer: bytearray | memoryview, timestamp: int, position: int = 0) -> None:
    """Write the max timestamp and update the CRC."""
    _MAX_TIMESTAMP.pack_into(buffer, position + 35, timestamp)
    stamp_crc(buffer, position)


def stamp_only_record(buffer: bytearray | memoryview, timestamp: int, position: int = 0) -> None:
    """Set the timestamp of the only record of a batch, as `builder` encodes it, and update the CRC."""
    _BASE_TIMESTAMP.pack_into(buffer, position + 27, timestamp)
    stamp_max_timestamp(buffer, timestamp, position)


def stamp_crc(buffer: bytearray | memoryview, position: int = 0) -> None:
    """
    Compute and write the CRC after a change to the bytes that it covers.

    Raise MalformedBatch if the batch's length is impossible.
    """
    _CRC.pack_into(buffer, position + 17, crc_of(buffer, position))


def checksum_of_verified(batch: Buffer) -> int:
    """
    Return the CRC-32C of all bytes of `batch`, whose CRC field must have been verified.

    For a large batch, the result is derived from the CRC field, without reading the records a second time.
    """
    covered = len(batch) - CRC_START
    if covered < JOINED_BYTES_MIN:
        return crc32c(batch)
    with memoryview(batch) as view:
        head = crc32c(view[:CRC_START])
    (own,) = _CRC.unpack_from(batch, 17)
    return crc32c_joined(head, own, covered)


def crc_of(buffer: Buffer, position: int = 0) -> int:
    """Return the value that the CRC field should have.  Raise MalformedBatch if the batch's length is impossible."""
    (batch_length,) = _LENGTH.unpack_from(buffer, position + 8)
    end = position + LENGTH_BYTES + batch_length
    if not position + HEADER_BYTES <= end <= len(buffer):
        raise MalformedBatch(f"a batch length of {batch_length} does not fit into a buffer of {len(buffer)} bytes")
    with memoryview(buffer) as view, view[position + CRC_START : end] as covered:
        return crc32c(covered)


def crc_matches(buffer: Buffer, position: int = 0) -> bool:
    """
    Return whether the CRC field matches the batch's bytes.

    Raise MalformedBatch if the batch's length is impossible.
    """
    (stored,) = _CRC.unpack_from(buffer, position + 17)
    return bool(stored == crc_of(buffer, position))


class Span(NamedTuple):
    """One of several batches in a buffer: its position and size in bytes, and its header."""

    position: int
    size: int
    header: BatchHeader


def spans(buffer: Buffer, position: int = 0) -> Iterator[Span]:
    """
    Yield the complete batches in `buffer`, starting at `position`.

    An incomplete batch at the end is not an error: a Fetch response may end anywhere, and a segment may have a torn
    tail.  The bytes of that batch start at the end of the last span.  Raise MalformedBatch if a length is too small for
    a batch.
    """
    end = len(buffer)
    while position + HEADER_BYTES <= end:
        header = read_header(buffer, position)
        size = header.batch_length + LENGTH_BYTES
        if size < HEADER_BYTES:
            raise MalformedBatch(f"the batch at position {position} has a size of {size} bytes; a header alone has 61")
        if position + size > end:
            return
        yield Span(position, size, header)
        position += size


SEQUENCE_MAX: Final = (1 << 31) - 1


def add_sequence(sequence: int, increment: int) -> int:
    """Return the sequence number that is `increment` records after `sequence`.  The number after 2^31 - 1 is 0."""
    return (sequence + increment) & SEQUENCE_MAX


def last_sequence(header: BatchHeader) -> int:
    """Return the sequence number of the batch's last record, or NO_SEQUENCE if the batch has no sequence numbers."""
    if header.base_sequence < 0:
        return NO_SEQUENCE
    return (header.base_sequence + header.last_offset_delta) & SEQUENCE_MAX

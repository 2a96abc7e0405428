"""A record batch (Kafka's format v2): a header view over the bytes it came in.

A batch is 61 bytes of header, then its records, compressed or not.  Base offset and leader epoch stand before the
CRC and outside it, so that a leader can stamp them in place; everything from the attributes on is under it.

    0  base offset        int64      23  last offset delta  int32      51  producer epoch  int16
    8  batch length       int32      27  base timestamp     int64      53  base sequence   int32
    12 leader epoch       int32      35  max timestamp      int64      57  record count    int32
    16 magic              int8       43  producer id        int64      61  records
    17 CRC-32C of 21..    uint32
    21 attributes         int16: codec 0-2, timestamp type 3, transactional 4, control 5, delete horizon 6

Every function takes any contiguous buffer of bytes and the position of a batch in it; those that write need a
writable one.  None looks at a record.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from tidemill.batches.checksum import JOINED_BYTES_MIN, crc32c, crc32c_joined

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
LENGTH_BYTES: Final = 12  # base offset and batch length themselves, which the batch length leaves out
CRC_START: Final = 21  # the attributes: the first byte under the CRC
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
_MAX_TIMESTAMP: Final = Struct(">q")
_LENGTH: Final = Struct(">i")

unpack_header = _HEADER.unpack_from  # the numbers of BatchHeader as a bare tuple, for the hottest path
_pack_base_offset = _BASE_OFFSET.pack_into
_pack_leader_epoch = _LEADER_EPOCH.pack_into
_new_header = tuple.__new__


class MalformedBatch(ValueError):
    """The bytes are no record batch, or their parts contradict each other."""


class BatchHeader(NamedTuple):
    """The first 61 bytes as numbers, in the order in which they lie there."""

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
        """The whole batch, header included."""
        return self.batch_length + LENGTH_BYTES

    @property
    def codec(self) -> int:
        """A number of `compression.Codec`, or 5 to 7, which nobody has defined."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """All records have the max timestamp; what they carry themselves does not count."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The numbers as they stand, unchecked.  struct.error when fewer than 61 bytes are left."""
    return _new_header(BatchHeader, unpack_header(buffer, position))


def write_header(buffer: bytearray | memoryview, header: BatchHeader, position: int = 0) -> None:
    """The inverse of `read_header`."""
    _HEADER.pack_into(buffer, position, *header)


def stamp(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Give the batch its place in the partition.  Both fields lie outside the CRC."""
    _pack_base_offset(buffer, position, base_offset)
    _pack_leader_epoch(buffer, position + 12, leader_epoch)


def stamp_log_append_time(buffer: bytearray | memoryview, timestamp: int, position: int = 0) -> None:
    """Make `timestamp` that of every record (`message.timestamp.type=LogAppendTime`).  Renews the CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + CRC_START)
    _ATTRIBUTES.pack_into(buffer, position + CRC_START, attributes | LOG_APPEND_TIME)
    stamp_max_timestamp(buffer, timestamp, position)


def stamp_max_timestamp(buffer: bytearray | memoryview, timestamp: int, position: int = 0) -> None:
    """Write the max timestamp and renew the CRC."""
    _MAX_TIMESTAMP.pack_into(buffer, position + 35, timestamp)
    stamp_crc(buffer, position)


def stamp_crc(buffer: bytearray | memoryview, position: int = 0) -> None:
    """Renew the CRC after a change under it."""
    _CRC.pack_into(buffer, position + 17, crc_of(buffer, position))


def checksum_of_checked(batch: Buffer) -> int:
    """
    CRC-32C of all its bytes.  Its own CRC has been found right: of a large one the records are not read a second time.
    Measured on 1 MB: 6 µs instead of 90.
    """
    covered = len(batch) - CRC_START
    if covered < JOINED_BYTES_MIN:
        return crc32c(batch)
    with memoryview(batch) as view:
        head = crc32c(view[:CRC_START])
    (own,) = _CRC.unpack_from(batch, 17)
    return crc32c_joined(head, own, covered)


def crc_of(buffer: Buffer, position: int = 0) -> int:
    """What the CRC field should hold."""
    (batch_length,) = _LENGTH.unpack_from(buffer, position + 8)
    end = position + LENGTH_BYTES + batch_length
    if not position + HEADER_BYTES <= end <= len(buffer):
        raise MalformedBatch(f"a batch length of {batch_length} does not fit into the {len(buffer)} bytes at hand")
    with memoryview(buffer) as view, view[position + CRC_START : end] as covered:
        return crc32c(covered)


def crc_matches(buffer: Buffer, position: int = 0) -> bool:
    (stored,) = _CRC.unpack_from(buffer, position + 17)
    return bool(stored == crc_of(buffer, position))


class Span(NamedTuple):
    """Where one batch lies in a buffer of several."""

    position: int
    size: int
    header: BatchHeader


def spans(buffer: Buffer, position: int = 0) -> Iterator[Span]:
    """
    The whole batches that lie one after another from `position` on.

    Stops at a partial last batch: a Fetch response may be cut anywhere, and a segment may have a torn tail; what is
    left begins where the last span ended.  MalformedBatch when a length cannot be that of a batch.
    """
    end = len(buffer)
    while position + HEADER_BYTES <= end:
        header = read_header(buffer, position)
        size = header.batch_length + LENGTH_BYTES
        if size < HEADER_BYTES:
            raise MalformedBatch(f"the batch at position {position} claims {size} bytes; a header alone takes 61")
        if position + size > end:
            return
        yield Span(position, size, header)
        position += size


SEQUENCE_MAX: Final = (1 << 31) - 1


def add_sequence(sequence: int, increment: int) -> int:
    """A producer's sequence number `increment` records later.  After 2^31 − 1 comes 0."""
    return (sequence + increment) & SEQUENCE_MAX


def last_sequence(header: BatchHeader) -> int:
    """The sequence number of the batch's last record; NO_SEQUENCE when it has none."""
    if header.base_sequence < 0:
        return NO_SEQUENCE
    return (header.base_sequence + header.last_offset_delta) & SEQUENCE_MAX

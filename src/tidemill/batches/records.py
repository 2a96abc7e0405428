"""
Decodes the records of a batch into `Record` objects, for coordinators, the CLI and tests.

No hot path uses this module.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from tidemill.batches.batch import HEADER_BYTES, LENGTH_BYTES, BatchHeader, Buffer, MalformedBatch, read_header
from tidemill.batches.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from tidemill.batches.native import scan

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record of a batch."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp: int = -1  # milliseconds since the epoch; -1: none
    offset: int = -1  # -1 until the record is appended to a partition


def read_records(batch: Buffer, position: int = 0, size_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """
    Return the records of the batch at `position`.  The CRC is not checked.

    `size_max` limits the number of decompressed bytes.  Raise MalformedBatch or CompressionError (both are ValueErrors)
    if the batch cannot be read.
    """
    header, cursor = _open(batch, position, size_max)
    records = [_read_record(header, cursor) for _ in range(header.record_count)]
    if cursor.bytes_left:
        raise MalformedBatch(f"{cursor.bytes_left} bytes follow the last record")
    return records


def read_record(batch: Buffer, offset: int, position: int = 0, size_max: int = DECOMPRESSED_BYTES_MAX) -> Record | None:
    """
    Return one record of the batch at `position`, without decoding the others; None if the batch has no such offset.
    The offsets of its records ascend.  Few records are decoded, so this is fast for large batches.  Raise ValueError if
    the batch cannot be read.
    """
    header, cursor = _open(batch, position, size_max)
    starts = scan.record_starts(cursor.block, 0, len(cursor.block), header.record_count)
    index = bisect_left(starts, offset, hi=header.record_count, key=lambda start: cursor.place_at(start, header)[0])
    if index == header.record_count or cursor.place_at(starts[index], header)[0] != offset:
        return None
    cursor.position = starts[index]
    return _read_record(header, cursor)


def timestamp_from(batch: Buffer, offset: int, position: int = 0, size_max: int = DECOMPRESSED_BYTES_MAX) -> int | None:
    """
    Return the timestamp of the first record at or after `offset` in the batch at `position`; None if there is none.

    Few records are decoded, so this is fast for large batches.  Raise ValueError if the batch cannot be read.
    """
    header, cursor = _open(batch, position, size_max)
    starts = scan.record_starts(cursor.block, 0, len(cursor.block), header.record_count)
    index = bisect_left(starts, offset, hi=header.record_count, key=lambda start: cursor.place_at(start, header)[0])
    if index == header.record_count:
        return None
    return header.max_timestamp if header.is_log_append_time else cursor.place_at(starts[index], header)[1]


def _open(batch: Buffer, position: int, size_max: int) -> tuple[BatchHeader, "_Cursor"]:
    if len(batch) - position < HEADER_BYTES:
        raise MalformedBatch(f"{len(batch) - position} bytes are left; a batch header has {HEADER_BYTES}")
    header = read_header(batch, position)
    end = position + LENGTH_BYTES + header.batch_length
    if not position + HEADER_BYTES <= end <= len(batch):
        raise MalformedBatch(f"batch length {header.batch_length} does not fit into a buffer of {len(batch)} bytes")
    with memoryview(batch) as view, view[position + HEADER_BYTES : end] as payload:
        block = bytes(payload) if header.codec == Codec.NONE else decompress(header.codec, payload, size_max)
    return header, _Cursor(block)


def _read_record(header: BatchHeader, cursor: "_Cursor") -> Record:
    record_end = cursor.varint() + cursor.position
    cursor.take(1)
    timestamp = header.base_timestamp + cursor.varint()
    offset = header.base_offset + cursor.varint()
    key = cursor.nullable()
    value = cursor.nullable()
    headers = tuple(cursor.header() for _ in range(cursor.count()))
    if cursor.position != record_end:
        raise MalformedBatch(f"the fields of the record at offset {offset} do not add up to its length")
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    return Record(key, value, headers, timestamp, offset)


class _Cursor:
    """A read position in a block of records.  No read goes beyond the end of the block."""

    def __init__(self, block: bytes) -> None:
        self.block = block
        self.position = 0

    @property
    def bytes_left(self) -> int:
        return len(self.block) - self.position

    def place_at(self, start: int, header: BatchHeader) -> tuple[int, int]:
        """Return the offset and the timestamp of the record that starts at position `start`."""
        self.position = start
        self.varint()  # the length
        self.take(1)
        timestamp = header.base_timestamp + self.varint()
        return header.base_offset + self.varint(), timestamp

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self.block):
            raise MalformedBatch(f"a length of {count} bytes at position {self.position} of {len(self.block)}")
        taken = self.block[self.position : end]
        self.position = end
        return taken

    def varint(self) -> int:
        zigzag = 0
        for shift in range(0, 70, 7):
            (byte,) = self.take(1)
            zigzag |= (byte & 0x7F) << shift
            if byte < 0x80:
                return zigzag >> 1 ^ -(zigzag & 1)
        raise MalformedBatch(f"the varint before position {self.position} does not end within ten bytes")

    def count(self) -> int:
        count = self.varint()
        if not 0 <= count <= len(self.block) - self.position:
            raise MalformedBatch(f"a count of {count} headers, but {len(self.block) - self.position} bytes are left")
        return count

    def nullable(self) -> bytes | None:
        length = self.varint()
        return None if length == -1 else self.take(length)

    def header(self) -> Header:
        """Read one header.  Invalid UTF-8 in the name is replaced, as Java's clients do."""
        return self.take(self.varint()).decode(errors="replace"), self.nullable()

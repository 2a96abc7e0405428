"""Record batch → records, one value each: for coordinators, the CLI's dump, and tests.  Nothing hot comes here."""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.batches.batch import HEADER_BYTES, LENGTH_BYTES, Buffer, MalformedBatch, read_header
from tidemill.batches.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """What a producer sent."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp: int = -1  # milliseconds since the epoch; −1: none
    offset: int = -1  # −1 until it has a place in a partition


def read_records(batch: Buffer, position: int = 0, size_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """
    The records of one batch, whose CRC the caller has checked where that matters.

    MalformedBatch (or its sibling CompressionError, both ValueError) when they cannot be read; `size_max` caps what
    compressed records may unfold to.
    """
    if len(batch) - position < HEADER_BYTES:
        raise MalformedBatch(f"{len(batch) - position} bytes are left; a batch header takes {HEADER_BYTES}")
    header = read_header(batch, position)
    end = position + LENGTH_BYTES + header.batch_length
    if not position + HEADER_BYTES <= end <= len(batch):
        raise MalformedBatch(f"batch length {header.batch_length} does not fit into the {len(batch)} bytes at hand")
    with memoryview(batch) as view, view[position + HEADER_BYTES : end] as payload:
        block = bytes(payload) if header.codec == Codec.NONE else decompress(header.codec, payload, size_max)
    records: list[Record] = []
    cursor = _Cursor(block)
    for _ in range(header.record_count):
        record_end = cursor.varint() + cursor.position
        cursor.take(1)
        timestamp = header.base_timestamp + cursor.varint()
        offset = header.base_offset + cursor.varint()
        key = cursor.nullable()
        value = cursor.nullable()
        headers = tuple(cursor.header() for _ in range(cursor.count()))
        if cursor.position != record_end:
            raise MalformedBatch(f"the record at offset {offset} does not have the length that it claims")
        if header.is_log_append_time:
            timestamp = header.max_timestamp
        records.append(Record(key, value, headers, timestamp, offset))
    if cursor.position != len(block):
        raise MalformedBatch(f"{len(block) - cursor.position} bytes follow the last record")
    return records


class _Cursor:
    """A place in a block of records that never leaves it."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self._block):
            raise MalformedBatch(f"{count} bytes are claimed at {self.position} of {len(self._block)}")
        taken = self._block[self.position : end]
        self.position = end
        return taken

    def varint(self) -> int:
        zigzag = 0
        for shift in range(0, 70, 7):
            (byte,) = self.take(1)
            zigzag |= (byte & 0x7F) << shift
            if byte < 0x80:
                return zigzag >> 1 ^ -(zigzag & 1)
        raise MalformedBatch(f"a number at {self.position} does not end within ten bytes")

    def count(self) -> int:
        count = self.varint()
        if not 0 <= count <= len(self._block) - self.position:
            raise MalformedBatch(f"{count} headers are claimed in {len(self._block) - self.position} bytes")
        return count

    def nullable(self) -> bytes | None:
        length = self.varint()
        return None if length == -1 else self.take(length)

    def header(self) -> Header:
        """Producers may name a header with any bytes; what is not UTF-8 is replaced, as Java's clients do."""
        return self.take(self.varint()).decode(errors="replace"), self.nullable()

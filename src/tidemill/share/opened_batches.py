"""Keys and priorities of the records in record batches, for shares with an order by key or with priorities."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tidemill.batches.batch import HEADER_BYTES, Buffer, MalformedBatch, Span, spans
from tidemill.batches.compression import CompressionError, decompress
from tidemill.batches.native import scan
from tidemill.batches.records import read_records

PRIORITY_HEADER: Final = "tidemill-priority"
PRIORITY_MAX: Final = 9
PRIORITY_DEFAULT: Final = 4

_PRIORITIES: Final = {b"%d" % number: number for number in range(PRIORITY_MAX + 1)}

KeyHash = int
"""
A hash of a record's key with 64 bits, which bounds the memory for long keys.  It is the same in one process only.

Two keys with the same hash are treated as one key, so their records are delivered one after the other: a collision
delays records, and never changes an order.
"""


class OpenedRecord(NamedTuple):
    offset: int
    key: KeyHash | None  # None: the record has no key, so it waits for no other record
    priority: int


class OpenedBatches(NamedTuple):
    """What was read: the records, without control records, and the offset that follows the last batch."""

    end: int
    records: Sequence[OpenedRecord]


def open_batches(parts: Iterable[Buffer], start: int, *, has_priorities: bool) -> OpenedBatches:
    """
    Return the records at offset `start` or above in complete batches.

    The records of a batch that cannot be decoded count as records without a key.  They must be delivered, so that
    consumers can reject them: a share must not wait forever for what no program can read.
    """
    opened: list[OpenedRecord] = []
    end = start
    for part in parts:
        for span in spans(part):
            end = max(end, span.header.end_offset)
            if span.header.is_control:
                continue
            try:
                records = _with_priorities(part, span) if has_priorities else _with_keys(part, span)
                opened += [record for record in records if record.offset >= start]
            except (MalformedBatch, CompressionError, scan.MalformedRecords):
                continue
    return OpenedBatches(end, opened)


def _with_priorities(part: Buffer, span: Span) -> Iterator[OpenedRecord]:
    for record in read_records(part, span.position):
        given = next((value for name, value in record.headers if name == PRIORITY_HEADER), None)
        priority = PRIORITY_DEFAULT if given is None else _PRIORITIES.get(given, PRIORITY_DEFAULT)
        yield OpenedRecord(record.offset, None if record.key is None else hash(record.key), priority)


def _with_keys(part: Buffer, span: Span) -> Iterator[OpenedRecord]:
    """Decode only the keys, in compiled code."""
    header = span.header
    with memoryview(part) as view, view[span.position + HEADER_BYTES : span.position + span.size] as payload:
        block = decompress(header.codec, payload)
    count, size = header.record_count, len(block)
    fill = scan.ColumnFill(count, size, 0, (1 << 63) - 1)
    offsets, ends = array("q", bytes(8 * count)), array("i", bytes(4 * (count + 1)))
    has_key, keys = bytearray((count + 7) // 8), bytearray(size)
    fill.want_offsets(offsets)
    fill.want_keys(ends, has_key, keys)
    fill.add(block, 0, size, count, header.base_offset, 0)
    for row in range(fill.rows):
        key = hash(bytes(keys[ends[row] : ends[row + 1]])) if has_key[row >> 3] >> (row & 7) & 1 else None
        yield OpenedRecord(offsets[row], key, PRIORITY_DEFAULT)

"""Keys and priorities of the records in record batches, for shares with an order by key or with priorities."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from tidemill.batches.batch import Buffer, MalformedBatch, Span, spans
from tidemill.batches.compression import CompressionError
from tidemill.batches.records import OPENED_BYTES_MAX, RecordPlace, open_block

PRIORITY_HEADER: Final = "tidemill-priority"
PRIORITY_MAX: Final = 9
PRIORITY_DEFAULT: Final = 4
RECORDS_MAX: Final = 10_000  # opened at a time: a small batch may have millions when it is decompressed
HASHED_BYTES_MAX: Final = 1 << 20  # of a key, which is copied for it

_PRIORITIES: Final = {b"%d" % number: number for number in range(PRIORITY_MAX + 1)}

KeyHash = int
"""
A hash of a record's key with 64 bits, which bounds the memory for long keys: of its first HASHED_BYTES_MAX.  It is the
same in one process only.

Two keys with the same hash are treated as one key, so their records are delivered one after the other: a collision
delays records, and never changes an order.
"""


class OpenedRecord(NamedTuple):
    offset: int
    key: KeyHash | None  # None: the record has no key, so it waits for no other record
    priority: int


class OpenedBatches(NamedTuple):
    """What was read: the records, without control records, and the offset up to which all are known."""

    end: int
    records: Sequence[OpenedRecord]


def open_batches(parts: Iterable[Buffer], start: int, *, has_priorities: bool) -> OpenedBatches:
    """
    Return the records at offset `start` or above in complete batches, at most RECORDS_MAX.

    The records of a batch that cannot be decoded, or has more than OPENED_BYTES_MAX decompressed bytes, count as
    records without a key.  They must be delivered, so that consumers can reject them: a share must not wait forever for
    what no program can read.
    """
    opened: list[OpenedRecord] = []
    end = start
    for part in parts:
        for span in spans(part):
            header, room = span.header, RECORDS_MAX - len(opened)
            try:
                found = [] if header.is_control else [*islice(_records(part, span, start, has_priorities), room)]
            except (MalformedBatch, CompressionError):
                found = []
            opened += found
            if found and len(found) == room:
                return OpenedBatches(max(end, min(found[-1].offset + 1, header.end_offset)), opened)
            end = max(end, header.end_offset)
    return OpenedBatches(end, opened)


def _records(part: Buffer, span: Span, start: int, has_priorities: bool) -> Iterator[OpenedRecord]:
    block = open_block(part, span.position, OPENED_BYTES_MAX)
    view = memoryview(block.data)
    for it in block.places(PRIORITY_HEADER if has_priorities else "", first=start):
        if it.offset < span.header.end_offset:  # no program checks the offsets in a compressed batch
            hashed = view[it.key_start : it.key_start + min(it.key_length, HASHED_BYTES_MAX)]
            key = None if it.key_length < 0 else hash(bytes(hashed))
            yield OpenedRecord(it.offset, key, _priority(view, it))


def _priority(block: memoryview, place: RecordPlace) -> int:
    if place.header_length != 1:
        return PRIORITY_DEFAULT
    return _PRIORITIES.get(bytes(block[place.header_start : place.header_start + 1]), PRIORITY_DEFAULT)

"""What a replica reads of the batches of a timer partition when it appends them.

A batch of arrivals, which `normalize` has prepared, gives a row of the index for each record, and the ids of timers.  A
batch of released records names the arrivals that it consumes.  A batch of the kept log gives rows for records that were
moved there.  All replicas read the same digits, so they build the same state.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

from tidemill.batches.batch import HEADER_BYTES, BatchHeader, Buffer, read_header
from tidemill.batches.checksum import crc32c
from tidemill.batches.native import scan
from tidemill.batches.records import OFFSET_MAX, Record
from tidemill.timer.due_row import KEPT
from tidemill.timer.due_time import DELIVER_AT
from tidemill.timer.timer_changes import Arrived
from tidemill.timer.timer_headers import ARRIVAL, CANCEL, PREFIX, SCHEDULE, TIMER_ID, hasher
from tidemill.timer.waiting_set import TimerArrival

PART_RECORDS: Final = 10_000  # that are decoded together
PART_HEADERS: Final = 20_000  # that they have together: two bytes of a batch can be a header, which takes a hundred
_TIMER_NAMES: Final = tuple(name.encode() for name in (TIMER_ID, CANCEL, SCHEDULE))


def arrivals_in(batch: Buffer, base_offset: int, position: int | None, topic_id: bytes) -> Arrived:
    """
    Return the records of a normalized batch.  `base_offset` is the arrival number of the first record, and `position`
    that of the batch in its segment, if it is known.
    """
    header = read_header(batch)
    otherwise = header.max_timestamp  # when a record without a time is due
    timers: list[TimerArrival] = []
    dues = numbers_in(batch, header, DELIVER_AT, PREFIX, otherwise)
    if dues is None:
        dues = numbers_in(batch, header, DELIVER_AT, DELIVER_AT, otherwise)
        if dues is None:
            given = values_in(batch, header, DELIVER_AT)
            dues = [otherwise if due is None else int(due) for _, (due,) in given]
        timers = _timers_in(batch, header, dues, topic_id)
    numbers = [*range(base_offset, base_offset + len(dues))]
    return Arrived(_rows(batch, header, dues, numbers, base_offset, position), timers)


def _timers_in(batch: Buffer, header: BatchHeader, dues: Sequence[int], topic_id: bytes) -> list[TimerArrival]:
    """Return the records that have ids; `dues` says when each record of the batch is due."""
    size, count = header.size_bytes, header.record_count
    found = scan.found_headers(batch, HEADER_BYTES, size, count, _TIMER_NAMES, PREFIX.encode(), OFFSET_MAX)
    ids: dict[int, bytes] = {}
    cancels: set[int] = set()
    recurring: set[int] = set()
    with memoryview(batch) as view:
        for index, name, start, length in zip(*[iter(found)] * 4, strict=True):
            if name == 0:
                ids[index] = bytes(view[start : start + max(length, 0)])
            elif name == 1:
                cancels.add(index)
            else:
                recurring.add(index)
    hashed = hasher(topic_id)
    return [TimerArrival(at, dues[at], hashed(its), at in cancels, at in recurring) for at, its in ids.items()]


def kept_in(batch: Buffer, base_offset: int, position: int | None) -> bytes:
    """Return the rows of the records of a batch of the kept log."""
    header = read_header(batch)
    dues, numbers = [], []
    for _, (due, arrival) in values_in(batch, header, DELIVER_AT, ARRIVAL):
        dues.append(int(due or b""))
        numbers.append(int(arrival or b""))
    return _rows(batch, header, dues, numbers, base_offset | KEPT, position)


def deliver_at(record: Record, otherwise: int) -> int:
    """Return when a record says that it is due, in digits; `otherwise` if it does not say so."""
    return next((int(value or b"") for name, value in record.headers if name == DELIVER_AT), otherwise)


def arrival_of_kept(record: Record) -> int:
    """Return the arrival of a record of the kept log."""
    return int(record.headers[-1][1] or b"")


def consumed_by(batch: Buffer) -> list[int]:
    """Return the arrivals of which a batch of released records holds the copies, by their last header."""
    header = read_header(batch)
    numbers = numbers_in(batch, header, ARRIVAL, ARRIVAL)
    if numbers is None:
        numbers = [int(arrival or b"") for _, (arrival,) in values_in(batch, header, ARRIVAL)]
    return numbers


def numbers_in(batch: Buffer, header: BatchHeader, name: str, prefix: str, otherwise: int = -1) -> list[int] | None:
    """
    Return the number in a header of each record of an uncompressed batch; `otherwise` for records without it.

    Return None if a closer look is needed to know: a record has the header twice, or with other bytes than digits, or
    other headers whose names begin with `prefix`.
    """
    size, count = header.size_bytes, header.record_count
    return scan.header_numbers(batch, HEADER_BYTES, size, count, name.encode(), prefix.encode(), otherwise)


def values_in(batch: Buffer, header: BatchHeader, *names: str) -> list[tuple[int, list[bytes | None]]]:
    """
    Return for each record of an uncompressed batch how many of its headers are for Tidemill, and the values of those
    with some names: None if a record has no such header, empty if it is null.
    """
    size, count, encoded = header.size_bytes, header.record_count, tuple(it.encode() for it in names)
    return scan.header_values(batch, HEADER_BYTES, size, count, encoded, PREFIX.encode())


def records_at(batch: Buffer, offsets: Iterable[int]) -> Iterator[tuple[bytes, int]]:
    """
    Yield some records of an uncompressed batch, each with its length, and the producer's timestamp of it.

    The batch is walked once, because it may have many records, and many of them may be wanted.
    """
    header, starts = read_header(batch), starts_of(batch)
    for offset in offsets:
        index = offset - header.base_offset
        start, end = starts[index], starts[index + 1]
        ((_, _, _, timestamp, _),) = scan.decode_records(
            batch, start, end, 1, 0, header.base_timestamp, 0, OFFSET_MAX, OFFSET_MAX
        )
        yield bytes(memoryview(batch)[start:end]), timestamp


def _rows(
    batch: Buffer, header: BatchHeader, dues: list[int], arrivals: list[int], first_offset: int, position: int | None
) -> bytes:
    """Return the rows of the records of a batch; `first_offset` is that of the first one, as in rows."""
    where = -1 if position is None else position
    size, timestamp = header.size_bytes, header.base_timestamp
    return scan.index_rows(batch, HEADER_BYTES, size, timestamp, dues, arrivals, first_offset, where, crc32c)


def decoded_parts(block: Buffer, starts: Sequence[int], header: BatchHeader) -> Iterator[list[Record]]:
    """
    Yield the records of a batch in parts that take little memory, with the timestamps of their producers.  `starts` say
    where they lie in their block, and where it ends.
    """
    index, count, end = 0, len(starts) - 1, starts[-1]
    bases = header.base_offset, header.base_timestamp, 0, OFFSET_MAX
    while index < count:
        at, left = starts[index], count - index
        try:
            found = scan.decode_records(block, at, end, left, *bases, PART_RECORDS, PART_HEADERS)
        except scan.MalformedRecords:
            if scan.header_counts(block, at, starts[index + 1])[0] <= PART_HEADERS:
                raise
            # The record has arrived before its headers were bounded.
            found = scan.decode_records(block, at, starts[index + 1], 1, *bases, 1, OFFSET_MAX)
        index += len(found)
        yield [*map(Record._make, found)]


def records_of(batch: Buffer, header: BatchHeader) -> Iterator[tuple[Record, tuple[int, int]]]:
    """Yield each record, with the producer's timestamp, and where it lies in the batch."""
    starts = starts_of(batch)
    return zip(chain.from_iterable(decoded_parts(batch, starts, header)), pairwise(starts), strict=True)


def starts_of(batch: Buffer) -> "array[int]":
    """Return where each record of an uncompressed batch begins, with its length, and where the last one ends."""
    return scan.record_starts(batch, HEADER_BYTES, read_header(batch).size_bytes)

"""What a replica reads of the batches of a timer partition when it appends them.

A batch of arrivals, which `normalize` has prepared, gives a row of the index for each record, and the ids of timers.  A
batch of released records names the arrivals that it consumes.  A batch of the kept log gives rows for records that were
moved there.  All replicas read the same digits, so they build the same state.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidemill.batches.batch import HEADER_BYTES, BatchHeader, Buffer, read_header
from tidemill.batches.checksum import crc32c
from tidemill.batches.native import scan
from tidemill.batches.records import OFFSET_MAX, Record
from tidemill.timer.due_row import KEPT, UNPLACED, DueRow, pack_rows
from tidemill.timer.due_time import DELIVER_AT
from tidemill.timer.timer_headers import CANCEL, SCHEDULE, TIMER_ID, hash_of
from tidemill.timer.waiting_set import Arrival


class Arrivals(NamedTuple):
    """The records of a batch of arrivals."""

    arrivals: list[Arrival]
    rows: bytes  # of the index, one for each record


def arrivals_in(batch: Buffer, base_offset: int, position: int | None, topic_id: bytes) -> Arrivals:
    """
    Return the records of a normalized batch.  `base_offset` is the arrival number of the first record, and `position`
    that of the batch in its segment, if it is known.
    """
    header = read_header(batch)
    arrivals, rows = [], []
    for number, (record, span) in enumerate(records_of(batch, header), base_offset):
        due, timer_id, only_cancels, is_recurring = header.max_timestamp, None, False, False
        for name, value in record.headers:
            if name == DELIVER_AT:
                due = int(value or b"")
            elif name == TIMER_ID:
                timer_id = hash_of(value or b"", topic_id)
            elif name == CANCEL:
                only_cancels = True
            elif name == SCHEDULE:
                is_recurring = True
        arrivals.append(Arrival(due, timer_id, only_cancels, is_recurring))
        rows.append(_row(batch, due, number, number, position, span, record))
    return Arrivals(arrivals, pack_rows(rows))


def kept_in(batch: Buffer, base_offset: int, position: int | None) -> bytes:
    """Return the rows of the records of a batch of the kept log."""
    rows = []
    for offset, (record, span) in enumerate(records_of(batch, read_header(batch)), base_offset):
        (_, due), (_, arrival) = record.headers[-2:]
        rows.append(_row(batch, int(due or b""), int(arrival or b""), offset | KEPT, position, span, record))
    return pack_rows(rows)


def deliver_at(record: Record, otherwise: int) -> int:
    """Return when a record says that it is due, in digits; `otherwise` if it does not say so."""
    return next((int(value or b"") for name, value in record.headers if name == DELIVER_AT), otherwise)


def arrival_of_kept(record: Record) -> int:
    """Return the arrival of a record of the kept log."""
    return int(record.headers[-1][1] or b"")


def consumed_by(batch: Buffer) -> list[int]:
    """Return the arrivals of which a batch of released records holds the copies, by their last header."""
    return [int(record.headers[-1][1] or b"") for record, _ in records_of(batch, read_header(batch))]


def records_at(batch: Buffer, offsets: Iterable[int]) -> Iterator[tuple[bytes, int]]:
    """
    Yield some records of an uncompressed batch, each with its length, and the producer's timestamp of it.

    The batch is walked once, because it may have many records, and many of them may be wanted.
    """
    header, spans = read_header(batch), spans_of(batch)
    for offset in offsets:
        start, end = spans[offset - header.base_offset]
        ((_, _, _, timestamp, _),) = scan.decode_records(
            batch, start, end, 1, 0, header.base_timestamp, 0, OFFSET_MAX, OFFSET_MAX
        )
        yield bytes(memoryview(batch)[start:end]), timestamp


def _row(
    batch: Buffer, due: int, arrival: int, offset: int, position: int | None, span: tuple[int, int], record: Record
) -> DueRow:
    start, end = span
    hashed = 0 if record.key is None else crc32c(record.key)
    if position is None:
        return DueRow(due, arrival, offset, UNPLACED, 0, 0, hashed, record.timestamp)
    crc = crc32c(memoryview(batch)[start:end])
    return DueRow(due, arrival, offset, position + start, end - start, crc, hashed, record.timestamp)


def records_of(batch: Buffer, header: BatchHeader) -> Iterator[tuple[Record, tuple[int, int]]]:
    """Yield each record, with the producer's timestamp, and where it lies in the batch."""
    found = scan.decode_records(
        batch,
        HEADER_BYTES,
        header.size_bytes,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        0,
        OFFSET_MAX,
        OFFSET_MAX,
    )
    return zip(map(Record._make, found), spans_of(batch), strict=True)


def spans_of(batch: Buffer) -> list[tuple[int, int]]:
    """Return start and end of each record of an uncompressed batch, with its length."""
    spans = []
    at, end = HEADER_BYTES, read_header(batch).size_bytes
    while at < end:
        start, length, shift = at, 0, 0
        while True:
            byte = batch[at]
            at += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        at += length >> 1  # the lengths of records are not negative, so their zigzag code is twice the length
        spans.append((start, at))
    return spans

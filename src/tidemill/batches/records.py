"""Decodes the records of a batch into `Record` objects."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidemill.batches.batch import HEADER_BYTES, LENGTH_BYTES, BatchHeader, Buffer, MalformedBatch, read_header
from tidemill.batches.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from tidemill.batches.native import scan

OFFSET_MAX: Final = (1 << 63) - 1
PLACES_MAX: Final = 1_000  # that are in memory at a time
OPENED_BYTES_MAX: Final = 32 << 20
"""
Decompressed bytes of a batch into which a broker looks of its own accord: a few kB that a producer sends can become so
many.  A broker opens one such batch at a time (`opening_jobs` of its machine), so a codec's window of 8 MiB is all that
comes on top.
"""
OPENED_HEADERS_MAX: Final = 50_000
"""Headers that a broker decodes together: two bytes of a batch can be a header, which takes a hundred bytes."""
NO_HEADER: Final = -2  # the length of a header's value that is not there
HEADER_MEMORY: Final = 128  # of memory that a decoded header takes beside its name and value
RECORD_MEMORY: Final = 256  # and a record
Header = tuple[str, bytes | None]


class TooManyHeaders(MalformedBatch):
    """A record has more headers than may be decoded together."""


class Record(NamedTuple):
    """One record of a batch."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp: int = -1  # milliseconds since the epoch; -1: none
    offset: int = -1  # -1 until the record is appended to a partition


def read_records(
    batch: Buffer,
    position: int = 0,
    size_max: int = DECOMPRESSED_BYTES_MAX,
    *,
    first: int = 0,
    last: int = OFFSET_MAX,
    limit: int = OFFSET_MAX,
    headers_max: int = OFFSET_MAX,
    headers_each: int = OFFSET_MAX,
    name_errors: str = "replace",
) -> list[Record]:
    """
    Return the records of the batch at `position`.  The CRC is not checked.

    They are those with offsets from `first` to `last`, at most `limit`; others are not decoded, so that few records of
    a large batch are read fast.  `size_max` limits the number of decompressed bytes.  `headers_max` ends them before
    the record with which they have more headers together: two bytes of a batch can be a header, which takes a hundred
    bytes of memory.  `headers_each` leaves out the further headers of each record.  Bytes of the names of headers that
    are not UTF-8 are replaced; with `name_errors="surrogateescape"`, a batch that is built of the records has them
    again.  Raise MalformedBatch or CompressionError (both are ValueErrors) if the batch cannot be read; TooManyHeaders,
    which is a MalformedBatch, if the first record alone has more headers.
    """
    block = open_block(batch, position, size_max)
    return block.records(
        first=first,
        last=last,
        limit=limit,
        headers_max=headers_max,
        headers_each=headers_each,
        name_errors=name_errors,
    )


class RecordPlace(NamedTuple):
    """Where a record's key, and the value of one of its headers, lie in a block.  The lengths are -1 for null."""

    offset: int
    timestamp: int
    key_start: int
    key_length: int
    header_start: int
    header_length: int  # NO_HEADER: the record has no such header


class RecordBlock(NamedTuple):
    """The records of a batch, decompressed, which are not decoded yet."""

    header: BatchHeader
    data: Buffer
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of decompressed bytes."""
        return self.end - self.start

    def records(
        self,
        *,
        first: int = 0,
        last: int = OFFSET_MAX,
        limit: int = OFFSET_MAX,
        headers_max: int = OFFSET_MAX,
        headers_each: int = OFFSET_MAX,
        name_errors: str = "replace",
    ) -> list[Record]:
        """Return records as `read_records` does.  Raise MalformedBatch."""
        header = self.header
        try:
            found = scan.decode_records(
                self.data,
                self.start,
                self.end,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                first,
                last,
                limit,
                headers_max,
                headers_each,
                name_errors,
            )
        except scan.TooManyHeaders as problem:
            raise TooManyHeaders(str(problem)) from problem
        except scan.MalformedRecords as problem:
            raise MalformedBatch(str(problem)) from problem
        records = [*map(Record._make, found)]
        return [it._replace(timestamp=header.max_timestamp) for it in records] if header.is_log_append_time else records

    def places(self, name: str = "", *, first: int = 0, is_last: bool = False) -> Iterator[RecordPlace]:
        """
        Yield where the records from offset `first` on lie, with their headers `name` if it is not empty: the first one
        of a record, or the last one.

        Nothing of them is decoded, and few are in memory at a time: a batch may have millions of records and of
        headers, and be small when it is compressed.  Raise MalformedBatch when a malformed record is reached.
        """
        header, position, left = self.header, self.start, self.header.record_count
        timestamp = header.max_timestamp if header.is_log_append_time else None
        base = header.base_offset, header.base_timestamp
        encoded = name.encode()
        while True:
            try:
                found, position, left = scan.record_places(
                    self.data, position, self.end, left, *base, first, PLACES_MAX, encoded, is_last
                )
            except scan.MalformedRecords as problem:
                raise MalformedBatch(str(problem)) from problem
            for it in map(RecordPlace._make, found):
                yield it if timestamp is None else it._replace(timestamp=timestamp)
            if left <= 0:
                return


def open_block(batch: Buffer, position: int = 0, size_max: int = DECOMPRESSED_BYTES_MAX) -> RecordBlock:
    """
    Return the block of the batch at `position`, for callers that must know how much they have decompressed.  Raise
    ValueError if the batch cannot be read, or has more than `size_max` decompressed bytes.
    """
    if len(batch) - position < HEADER_BYTES:
        raise MalformedBatch(f"{len(batch) - position} bytes are left; a batch header has {HEADER_BYTES}")
    header = read_header(batch, position)
    end = position + LENGTH_BYTES + header.batch_length
    if not position + HEADER_BYTES <= end <= len(batch):
        raise MalformedBatch(f"batch length {header.batch_length} does not fit into a buffer of {len(batch)} bytes")
    block, start = batch, position + HEADER_BYTES
    if header.codec != Codec.NONE:
        with memoryview(batch) as view, view[start:end] as payload:
            block = decompress(header.codec, payload, size_max)
        start, end = 0, len(block)
    return RecordBlock(header, block, start, end)


def read_record(
    batch: Buffer,
    offset: int,
    position: int = 0,
    size_max: int = DECOMPRESSED_BYTES_MAX,
    *,
    headers_max: int = OFFSET_MAX,
    name_errors: str = "replace",
) -> Record | None:
    """
    Return one record of the batch at `position`; None if the batch has no such offset.  Raise ValueError if the batch
    cannot be read; TooManyHeaders if the record has more than `headers_max` headers.
    """
    bounds = {"first": offset, "last": offset, "headers_max": headers_max}
    found = read_records(batch, position, size_max, **bounds, name_errors=name_errors)
    return next(iter(found), None)


def timestamps_from(batch: Buffer, offset: int) -> Iterator[tuple[int, int]]:
    """
    Yield (offset, timestamp) of the records from `offset` on in a batch, without decoding them.  Raise ValueError if
    the batch cannot be read, or has more than OPENED_BYTES_MAX decompressed bytes.
    """
    for place in open_block(batch, size_max=OPENED_BYTES_MAX).places(first=offset):
        yield place.offset, place.timestamp


def timestamp_from(batch: Buffer, offset: int) -> int | None:
    """
    Return the timestamp of the first record at or after `offset` in a batch; None if there is none.  Raise ValueError
    if the batch cannot be read.
    """
    return next((timestamp for _, timestamp in timestamps_from(batch, offset)), None)

"""Encodes rows of Arrow columns as record batches.  `arrow.batches_from` is a shortcut for all rows of a table.

The rows are encoded straight from Arrow's buffers, in any order, so rows need not be sorted or copied first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidemill.batches.batch import (
    HEADER_BYTES,
    LENGTH_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    add_sequence,
    stamp_crc,
    write_header,
)
from tidemill.batches.compression import Codec, compress
from tidemill.batches.native import scan

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS_COLUMN: Final = "headers"
BATCH_BYTES_MAX: Final = 1 << 20  # below Kafka's default `max.message.bytes` of 1,048,588
BATCH_RECORDS_MAX: Final = (1 << 31) - 1


def headers_type() -> pa.DataType:
    """Return the type of the column `headers`, as in Spark's Kafka source and sink."""
    import pyarrow as pa

    return pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))


class EncodedBatch(NamedTuple):
    batch: bytearray
    record_count: int
    place: int  # of the first record: its index in the encoder's order, or its row number if there is no order


class RowEncoder:
    """Encodes the rows of one RecordBatch, in batches of bounded size."""

    def __init__(
        self,
        rows: pa.RecordBatch,
        timestamp: int,
        *,
        order: Sequence[int] | None = None,
        codec: int = Codec.NONE,
        level: int | None = None,
        batch_bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        """
        Prepare the rows whose numbers are in `order`, an array of int32, or all rows.

        The columns and the other arguments are the same as for `arrow.batches_from`.  Raise ValueError if there is no
        column `value`.
        """
        self._columns, self._timestamps = _column_records(rows, timestamp)
        self._order = order
        if order is not None:
            self._columns.have_order(order)
        self._place_count = rows.num_rows if order is None else len(order)
        self._codec = codec
        self._level = level
        self._scratch = bytearray(max(batch_bytes_max, HEADER_BYTES + scan.RECORD_BYTES_MIN))

    def batches(
        self,
        first: int = 0,
        end: int | None = None,
        *,
        batch_records_max: int = BATCH_RECORDS_MAX,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> Iterator[EncodedBatch]:
        """
        Yield the rows at the positions [first, end) as batches with consecutive offsets and sequence numbers.

        Raise ValueError if timestamps or the order are out of range.
        """
        place = first
        end = self._place_count if end is None else end
        while place < end:
            room = self._scratch
            count = self._columns.write(room, HEADER_BYTES, place, min(batch_records_max, end - place))
            if count == 0:
                room = bytearray(HEADER_BYTES + self._columns.bytes_wanted)
                count = self._columns.write(room, HEADER_BYTES, place, 1)
            if self._codec == Codec.NONE:
                batch = room[: self._columns.position]
            else:
                batch = bytearray(HEADER_BYTES)
                batch += compress(self._codec, memoryview(room)[HEADER_BYTES : self._columns.position], self._level)
            header = BatchHeader(
                base_offset=base_offset,
                batch_length=len(batch) - LENGTH_BYTES,
                leader_epoch=leader_epoch,
                magic=MAGIC,
                crc=0,
                attributes=int(self._codec) | (TRANSACTIONAL if is_transactional else 0),
                last_offset_delta=count - 1,
                base_timestamp=self._timestamps[place if self._order is None else self._order[place]],
                max_timestamp=self._columns.timestamp_max,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                record_count=count,
            )
            write_header(batch, header)
            stamp_crc(batch)
            yield EncodedBatch(batch, count, place)
            place += count
            base_offset += count
            if base_sequence >= 0:
                base_sequence = add_sequence(base_sequence, count)


def _column_records(rows: pa.RecordBatch, timestamp: int) -> tuple[Any, memoryview]:
    """Return the rows' buffers as a ColumnRecords, and the rows' timestamps in milliseconds."""
    import pyarrow as pa

    timestamps = _timestamps(rows, timestamp)
    source = scan.ColumnRecords(rows.num_rows, timestamps)
    if "value" not in rows.schema.names:
        raise ValueError(f"there is no column 'value' among {', '.join(rows.schema.names)}")
    if rows.num_rows == 0:
        return source, timestamps
    source.have_values(*binary_buffers(rows.column("value")))
    if "key" in rows.schema.names:
        source.have_keys(*binary_buffers(rows.column("key")))
    if HEADERS_COLUMN in rows.schema.names:
        headers = rows.column(HEADERS_COLUMN).cast(headers_type())
        valid, ends = headers.buffers()[:2]
        source.have_headers(_ints(ends, headers.offset, len(headers) + 1), bitmap(valid), headers.offset)
        entries = headers.values
        names = binary_buffers(entries.field(0).cast(pa.binary()))
        source.have_header_entries(names[0], names[1], *binary_buffers(entries.field(1)))
    return source, timestamps


def _timestamps(rows: pa.RecordBatch, timestamp: int) -> memoryview:
    import pyarrow as pa

    if "timestamp" not in rows.schema.names:
        column = pa.repeat(pa.scalar(timestamp, pa.int64()), rows.num_rows)
    else:
        column = rows.column("timestamp")
        zone = column.type.tz if pa.types.is_timestamp(column.type) else None
        column = column.cast(pa.timestamp("ms", tz=zone), safe=False).cast(pa.int64())
        if column.null_count:
            column = column.fill_null(timestamp)
    data = column.buffers()[1]
    return memoryview(data).cast("B")[8 * column.offset : 8 * (column.offset + len(column))].cast("q")


def binary_buffers(column: pa.Array) -> tuple[memoryview, memoryview, memoryview | None, int]:
    """Return (ends, data, validity bitmap, index of row 0's bit in the bitmap) of a binary or text column."""
    import pyarrow as pa

    column = column.cast(pa.binary())
    valid, ends, data = column.buffers()
    bytes_view = memoryview(data if data is not None else b"").cast("B")
    return _ints(ends, column.offset, len(column) + 1), bytes_view, bitmap(valid), column.offset


def _ints(buffer: pa.Buffer | None, first: int, count: int) -> memoryview:
    if buffer is None or buffer.size < 4 * (first + count):
        return memoryview(bytes(4 * count)).cast("i")  # Arrow allows an empty column to have no offsets.
    return memoryview(buffer).cast("B")[4 * first : 4 * (first + count)].cast("i")


def bitmap(buffer: pa.Buffer | None) -> memoryview | None:
    """Return a validity bitmap, in which row 0's bit is at the column's offset; None if no value is null."""
    return None if buffer is None else memoryview(buffer).cast("B")

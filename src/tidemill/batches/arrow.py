"""Converts record batches to Arrow columns and back, for Spark and other columnar consumers.

The columns are those of Spark's Kafka source, in the same order and with the same types, so Spark can use the
RecordBatches without conversion.  Many batches are decoded in one pass into buffers that Arrow then owns.  Data is
copied once, and only `scan` processes records one by one.

pyarrow is imported only when a function is called, so the broker and the CLI start without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidemill.batches.batch import (
    CRC_START,
    HEADER_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Buffer,
    MalformedBatch,
    add_sequence,
    spans,
)
from tidemill.batches.checksum import crc32c
from tidemill.batches.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from tidemill.batches.control import AbortedTransaction, EndMarker, read_end_marker
from tidemill.batches.native import scan
from tidemill.batches.row_encoder import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, HEADERS_COLUMN, RowEncoder, headers_type

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
OFFSET_MAX: Final = (1 << 63) - 1
GROUP_BYTES_MAX: Final = 64 << 20  # per RecordBatch; far below 2 GiB, the limit of Arrow's 32-bit offsets


def schema(columns: Sequence[str] | None = None, *, include_headers: bool = False) -> pa.Schema:
    """
    Return the schema of Spark's Kafka source, or of the given `columns` in the given order.

    Raise ValueError for an unknown column.
    """
    import pyarrow as pa

    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS_COLUMN: headers_type(),
    }
    if columns is None:
        columns = (*COLUMNS, HEADERS_COLUMN) if include_headers else COLUMNS
    unknown = [name for name in columns if name not in types]
    if unknown:
        raise ValueError(f"column {unknown[0]!r} is unknown; the columns are {', '.join(types)}")
    return pa.schema([pa.field(name, types[name]) for name in columns])


# Functions that convert batches to columns


def record_batch_from(
    parts: Buffer | Sequence[Buffer],
    topic: str,
    partition: int,
    *,
    start_offset: int = 0,
    end_offset: int = OFFSET_MAX,
    include_headers: bool = False,
    columns: Sequence[str] | None = None,
    check_crc: bool = True,
    aborted: Sequence[AbortedTransaction] = (),
    size_max: int = DECOMPRESSED_BYTES_MAX,
) -> pa.RecordBatch:
    """
    Return all records of `parts` in one RecordBatch, which may be empty.

    The arguments are the same as for `record_batches_from`.  Use this function only for parts of bounded size.
    """
    blocks = list(_blocks(parts, start_offset, end_offset, check_crc, aborted, size_max))
    return _columns(
        blocks, topic, partition, start_offset, end_offset, schema(columns, include_headers=include_headers)
    )


def record_batches_from(
    parts: Buffer | Sequence[Buffer],
    topic: str,
    partition: int,
    *,
    start_offset: int = 0,
    end_offset: int = OFFSET_MAX,
    include_headers: bool = False,
    columns: Sequence[str] | None = None,
    check_crc: bool = True,
    aborted: Sequence[AbortedTransaction] = (),
    size_max: int = DECOMPRESSED_BYTES_MAX,
    group_bytes_max: int = GROUP_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """
    Yield the records with offsets in [start_offset, end_offset) of the batches in `parts`, as RecordBatches.

    Each part is a sequence of batches; the last batch may be incomplete.  Incomplete batches and control batches are
    skipped, and so are the records of the transactions in `aborted`, the list from a Fetch response.  A RecordBatch
    holds at most `group_bytes_max` decompressed bytes of records, or those of one larger batch; it is never empty.
    `size_max` limits the number of decompressed bytes of one batch.

    Raise ValueError (MalformedBatch, MalformedRecords, CompressionError) if a batch cannot be read.
    """
    wanted = schema(columns, include_headers=include_headers)
    group: list[_Block] = []
    group_bytes = 0
    for block in _blocks(parts, start_offset, end_offset, check_crc, aborted, size_max):
        if group and group_bytes + block.end - block.position > group_bytes_max:
            rows = _columns(group, topic, partition, start_offset, end_offset, wanted)
            if rows.num_rows:
                yield rows
            group, group_bytes = [], 0
        group.append(block)
        group_bytes += block.end - block.position
    if group:
        rows = _columns(group, topic, partition, start_offset, end_offset, wanted)
        if rows.num_rows:
            yield rows


class _Block(NamedTuple):
    """The decompressed records of one batch: the arguments of `ColumnFill.add`."""

    data: Buffer
    position: int
    end: int
    record_count: int
    base_offset: int
    base_timestamp: int
    append_time: int | None


def _blocks(
    parts: Buffer | Sequence[Buffer],
    start_offset: int,
    end_offset: int,
    check_crc: bool,
    aborted: Sequence[AbortedTransaction],
    size_max: int,
) -> Iterator[_Block]:
    pending = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    void_producers: set[int] = set()
    for part in [parts] if isinstance(parts, bytes | bytearray | memoryview) else parts:
        view = memoryview(part).cast("B")
        for position, size, header in spans(view):
            end = position + size
            if header.magic != MAGIC:
                raise MalformedBatch(f"the batch at offset {header.base_offset} has magic {header.magic}; expected 2")
            if check_crc and crc32c(view[position + CRC_START : end]) != header.crc:
                raise MalformedBatch(f"the batch at offset {header.base_offset} does not match its CRC")
            while pending and pending[-1].first_offset < header.end_offset:
                void_producers.add(pending.pop().producer_id)
            if header.is_control:
                if header.producer_id in void_producers and read_end_marker(view[position:end]) == EndMarker.ABORT:
                    void_producers.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in void_producers:
                continue
            if header.end_offset <= start_offset or header.base_offset >= end_offset:
                continue
            append_time = header.max_timestamp if header.is_log_append_time else None
            data: Buffer = view
            position += HEADER_BYTES
            if header.codec != Codec.NONE:
                data = decompress(header.codec, view[position:end], size_max)
                position, end = 0, len(data)
            if not 0 <= header.record_count <= (end - position) // scan.RECORD_BYTES_MIN:
                raise MalformedBatch(f"{header.record_count} records do not fit into {end - position} bytes")
            yield _Block(
                data, position, end, header.record_count, header.base_offset, header.base_timestamp, append_time
            )


def _columns(
    blocks: Sequence[_Block], topic: str, partition: int, start_offset: int, end_offset: int, wanted: pa.Schema
) -> pa.RecordBatch:
    """Decode all blocks into the columns of the schema `wanted`."""
    import pyarrow as pa

    rows_max = sum(block.record_count for block in blocks)
    bytes_max = sum(block.end - block.position for block in blocks)
    fill = scan.ColumnFill(rows_max, bytes_max, start_offset, end_offset)
    buffers = {name: _Buffers.of(name, rows_max, bytes_max) for name in wanted.names}
    for name, column in buffers.items():
        column.want(name, fill)
    for block in blocks:
        fill.add(*block)
    rows = fill.rows

    def variable(name: str, nulls: int) -> pa.Array:
        ends, valid, data = buffers[name].buffers
        return pa.Array.from_buffers(pa.binary(), rows, [valid if nulls else None, ends, data], nulls)

    def fixed(name: str, kind: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(kind, rows, [None, buffers[name].buffers[0]], 0)

    arrays = []
    for field in wanted:
        if field.name == "key":
            arrays.append(variable("key", fill.key_nulls))
        elif field.name == "value":
            arrays.append(variable("value", fill.value_nulls))
        elif field.name == "topic":
            arrays.append(pa.repeat(pa.scalar(topic, field.type), rows))
        elif field.name == "partition":
            arrays.append(pa.repeat(pa.scalar(partition, field.type), rows))
        elif field.name == HEADERS_COLUMN:
            arrays.append(_headers(fill, buffers[HEADERS_COLUMN].buffers))
        else:
            arrays.append(fixed(field.name, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _headers(fill: Any, buffers: Sequence[pa.Buffer]) -> pa.Array:
    """
    Return the headers column of `fill`, a ColumnFill.

    For a record without headers the column is null, as in Spark's Kafka source.
    """
    import pyarrow as pa

    ends, valid, name_ends, name_data, value_ends, value_valid, value_data = buffers
    nulls = fill.header_value_nulls
    names = pa.Array.from_buffers(pa.binary(), fill.header_count, [None, name_ends, name_data], 0)
    values = pa.Array.from_buffers(
        pa.binary(), fill.header_count, [value_valid if nulls else None, value_ends, value_data], nulls
    )
    kind = headers_type()
    try:
        checked_names = names.cast(pa.string())
    except pa.ArrowInvalid:  # A producer may send any bytes.  Invalid UTF-8 is replaced, as in Java's clients.
        checked_names = pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
    entries = pa.StructArray.from_arrays([checked_names, values], fields=list(kind.value_type))
    return pa.Array.from_buffers(
        kind, fill.rows, [valid if fill.headerless else None, ends], fill.headerless, children=[entries]
    )


class _Buffers(NamedTuple):
    """The buffers of one column, in Arrow's order."""

    buffers: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, rows_max: int, bytes_max: int) -> _Buffers:
        """Allocate buffers for the largest possible column.  Pages that are never written take no physical memory."""
        import pyarrow as pa

        def allocated(size: int) -> pa.Buffer:
            return pa.allocate_buffer(max(size, 8))

        def zeroed(bits: int) -> pa.Buffer:
            return pa.py_buffer(bytearray(bits // 8 + 1))

        if name in ("key", "value"):
            return cls((allocated(4 * rows_max + 4), zeroed(rows_max), allocated(bytes_max)))
        if name in ("offset", "timestamp"):
            return cls((allocated(8 * rows_max),))
        if name == "timestampType":
            return cls((allocated(4 * rows_max),))
        if name == HEADERS_COLUMN:
            headers_max = bytes_max // 2
            return cls(
                (
                    allocated(4 * rows_max + 4),
                    zeroed(rows_max),
                    allocated(4 * headers_max + 4),
                    allocated(bytes_max),
                    allocated(4 * headers_max + 4),
                    zeroed(headers_max),
                    allocated(bytes_max),
                )
            )
        return cls(())  # Topic and partition need no buffers: they are the same in every row.

    def want(self, name: str, fill: Any) -> None:
        """Pass the buffers to `fill`, a ColumnFill, which fills them with the column `name`."""
        views = [memoryview(buffer).cast("B") for buffer in self.buffers]
        if name == "key":
            fill.want_keys(views[0].cast("i"), views[1], views[2])
        elif name == "value":
            fill.want_values(views[0].cast("i"), views[1], views[2])
        elif name == "offset":
            fill.want_offsets(views[0].cast("q"))
        elif name == "timestamp":
            fill.want_timestamps(views[0].cast("q"))
        elif name == "timestampType":
            fill.want_timestamp_types(views[0].cast("i"))
        elif name == HEADERS_COLUMN:
            fill.want_headers(
                views[0].cast("i"), views[1], views[2].cast("i"), views[3], views[4].cast("i"), views[5], views[6]
            )


# Functions that convert columns to batches


def batches_from(
    rows: pa.RecordBatch | pa.Table,
    *,
    timestamp: int,
    codec: int = Codec.NONE,
    level: int | None = None,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    batch_records_max: int = BATCH_RECORDS_MAX,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> list[bytearray]:
    """
    Return the rows as record batches, in order, with consecutive offsets and sequence numbers.

    The column `value` is required; `key`, `headers` and `timestamp` (any Arrow timestamp type) are optional.  The
    argument `timestamp` (milliseconds since the epoch) applies to rows without a timestamp.  A batch has at most
    `batch_bytes_max` bytes before compression.  A single larger record gets a batch of its own, which the broker may
    reject.

    Raise ValueError if there is no column `value`, or if the rows' offsets or timestamps are out of range.
    """
    import pyarrow as pa

    batches: list[bytearray] = []
    for chunk in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
        encoder = RowEncoder(chunk, timestamp, codec=codec, level=level, batch_bytes_max=batch_bytes_max)
        for encoded in encoder.batches(
            batch_records_max=batch_records_max,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        ):
            batches.append(encoded.batch)
            base_offset += encoded.record_count
            if base_sequence >= 0:
                base_sequence = add_sequence(base_sequence, encoded.record_count)
    return batches

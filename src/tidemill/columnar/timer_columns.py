"""The sink's columns `deliver_at` and `timer_id`, which become headers of records in timer topics.

deliver_at   a timestamp with a time zone, or ms since the epoch: when the record is due
timer_id     the name of the record's timer: a later record with the same name replaces it

A null gives no header.  The columns are merged into the column `headers` without a loop over the rows.
"""

from typing import TYPE_CHECKING, Any, Final

from tidemill.batches.row_encoder import HEADERS_COLUMN, headers_type
from tidemill.columnar.row_faults import RowRefused, topic_of
from tidemill.model.delayed_record import DELAY, DELIVER_AT, DUE_MS_MAX, DUE_MS_MIN, ID_BYTES_MAX, TIMER_ID

if TYPE_CHECKING:
    import pyarrow as pa

DELIVER_AT_COLUMN: Final = "deliver_at"
TIMER_ID_COLUMN: Final = "timer_id"
TIMER_COLUMNS: Final = (DELIVER_AT_COLUMN, TIMER_ID_COLUMN)
_PER_MS: Final = {"us": 1_000, "ns": 1_000_000}
_UNIT_MS: Final = {"s": 1_000, "ms": 1}


def has_timer_columns(schema: "pa.Schema") -> bool:
    """Return whether rows of this schema may say when they are due, or name a timer."""
    import pyarrow.types as t

    return any(name in schema.names and not t.is_null(schema.field(name).type) for name in TIMER_COLUMNS)


def timer_rows(rows: "pa.RecordBatch") -> "pa.Array | None":
    """Return, for each row, whether it has a value in one of the columns; None if the columns are missing."""
    import pyarrow.compute as pc

    found: Any = None
    for name in TIMER_COLUMNS:
        if name in rows.schema.names:
            has_value = rows.column(name).is_valid()
            found = has_value if found is None else pc.or_(found, has_value)
    return found


def with_timer_headers(rows: "pa.RecordBatch", rows_before: int) -> "pa.RecordBatch":
    """
    Return rows that have headers instead of the two columns, behind the headers that they have already.

    `rows` are those that `sink_schema.sink_rows` returns, and `rows_before` is the number of the first row.  Raise
    RowRefused for the first value that a broker would refuse, and for a header that is there twice.
    """
    values = {}
    if DELIVER_AT_COLUMN in rows.schema.names:
        values[DELIVER_AT] = _due_digits(rows, rows_before)
    if TIMER_ID_COLUMN in rows.schema.names:
        values[TIMER_ID] = _timer_ids(rows, rows_before)
    if not values:
        return rows
    _check_twice(rows, rows_before)
    columns = {name: rows.column(name) for name in rows.schema.names if name not in TIMER_COLUMNS}
    return type(rows).from_pydict(columns | {HEADERS_COLUMN: _merged(rows, values)})


def _due_digits(rows: "pa.RecordBatch", rows_before: int) -> "pa.Array":
    """Return the due times in digits.  A moment that is finer than a ms is rounded up, so that no record is early."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = rows.column(DELIVER_AT_COLUMN)
    is_number = pa.types.is_integer(column.type)
    due = column if is_number else _due_ms(column)
    if is_number:
        row = _first(pc.less(due, DUE_MS_MIN))
        if row is not None:
            raise _refused(
                rows, rows_before, row, DELIVER_AT_COLUMN, f"is {due[row]}",
                "a number is ms since the epoch, and this one looks like seconds; multiply it, or cast it to timestamp",
            )  # fmt: skip
    row = _first(pc.greater(due, DUE_MS_MAX))
    if row is not None:
        unit = "ms" if is_number else column.type.unit
        problem = f"is {column.cast(pa.int64())[row]} {unit} since the epoch, after the year 9999"
        raise _refused(rows, rows_before, row, DELIVER_AT_COLUMN, problem, "correct it, or set it to null")
    # What is past is due at once, however long ago it was.
    clipped = pc.max_element_wise(due, DUE_MS_MIN, skip_nulls=False)
    return clipped.cast(pa.string()).cast(pa.binary())


def _due_ms(moments: "pa.Array") -> Any:
    """Return timestamps in ms since the epoch, rounded up.  Those before 1970 become 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    since = pc.max_element_wise(moments.cast(pa.int64()), 0, skip_nulls=False)
    unit = moments.type.unit
    if unit in _UNIT_MS:
        factor = _UNIT_MS[unit]
        return pc.multiply(pc.min_element_wise(since, DUE_MS_MAX // factor + 1, skip_nulls=False), factor)
    whole = pc.divide(since, _PER_MS[unit])
    return pc.add(whole, pc.greater(since, pc.multiply(whole, _PER_MS[unit])).cast(pa.int64()))


def _timer_ids(rows: "pa.RecordBatch", rows_before: int) -> "pa.Array":
    import pyarrow.compute as pc

    ids = rows.column(TIMER_ID_COLUMN)
    sizes = pc.binary_length(ids)
    row = _first(pc.or_(pc.equal(sizes, 0), pc.greater(sizes, ID_BYTES_MAX)))
    if row is not None:
        fix = f"use 1 to {ID_BYTES_MAX} bytes, or null for none"
        raise _refused(rows, rows_before, row, TIMER_ID_COLUMN, f"has {sizes[row]} bytes", fix)
    return ids


def _check_twice(rows: "pa.RecordBatch", rows_before: int) -> None:
    """Refuse a row whose column `headers` says the same as one of the two columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if HEADERS_COLUMN not in rows.schema.names:
        return
    headers = rows.column(HEADERS_COLUMN)
    names, parents = headers.flatten().field("key"), pc.list_parent_indices(headers)
    for column, refused in ((DELIVER_AT_COLUMN, (DELIVER_AT, DELAY)), (TIMER_ID_COLUMN, (TIMER_ID,))):
        if column not in rows.schema.names:
            continue
        has_header = pc.is_in(names, value_set=pa.array(refused, pa.string()))
        entry = _first(pc.and_(has_header, rows.column(column).is_valid().take(parents)))
        if entry is not None:
            fix = "remove the header, or set the column to null"
            problem = f"is there beside the header {names[entry]}"
            raise _refused(rows, rows_before, parents[entry].as_py(), column, problem, fix)


def _merged(rows: "pa.RecordBatch", values: "dict[str, pa.Array]") -> "pa.Array":
    """Return the headers of each row, and behind them those of `values`, by the name of the header; null is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = headers_type()
    counts: Any = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    parents, entries = [], []
    if HEADERS_COLUMN in rows.schema.names:
        headers = rows.column(HEADERS_COLUMN)
        counts = pc.add(counts, pc.fill_null(pc.list_value_length(headers), 0).cast(pa.int64()))
        parents.append(pc.list_parent_indices(headers).cast(pa.int64()))
        entries.append(headers.flatten())
    for name, column in values.items():
        is_there = column.is_valid()
        counts = pc.add(counts, is_there.cast(pa.int64()))
        parents.append(pc.indices_nonzero(is_there).cast(pa.int64()))
        present = column.drop_null()
        names = pa.repeat(pa.scalar(name, pa.string()), len(present))
        entries.append(pa.StructArray.from_arrays([names, present], fields=list(kind.value_type)))
    order = pc.array_sort_indices(pa.concat_arrays(parents))  # stable, so entries of a row keep their order
    ends = pc.cumulative_sum(counts).cast(pa.int32())
    starts = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(starts, pa.concat_arrays(entries).take(order), type=kind)


def _first(mask: Any) -> int | None:
    """Return the index of the first True."""
    import pyarrow.compute as pc

    found: int = pc.index(mask, True).as_py()
    return found if found >= 0 else None


def _refused(rows: "pa.RecordBatch", rows_before: int, row: int, column: str, problem: str, fix: str) -> RowRefused:
    return RowRefused(f"{topic_of(rows, row)}row {rows_before + row}: {column} {problem}: {fix}")

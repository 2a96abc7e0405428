"""The columns of records that wait in timer topics.

They are those of other records, without what a record gets when it is released (offset and type of timestamp), and

    arrival      the record's number while it waits: arrivals of a partition are counted from 0
    deliver_at   when the record is due
    timer_id     the name of the record's timer, or null

The headers that say so are left out of the column `headers`, so that the rows can be written to another timer topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidemill.batches import arrow
from tidemill.batches.row_encoder import HEADERS_COLUMN
from tidemill.client.waiting_records import WaitingRecord
from tidemill.columnar.timer_columns import DELIVER_AT_COLUMN, TIMER_ID_COLUMN
from tidemill.model.delayed_record import ARRIVAL, DELAY, DELIVER_AT, TIMER_ID, TIMESTAMP

if TYPE_CHECKING:
    import pyarrow as pa

ARRIVAL_COLUMN: Final = "arrival"
WAITING_COLUMNS: Final = (ARRIVAL_COLUMN, DELIVER_AT_COLUMN, TIMER_ID_COLUMN)
RELEASED_COLUMNS: Final = ("offset", "timestampType")  # a record has them only when it is released
_IN_COLUMNS: Final = (DELIVER_AT, DELAY, TIMER_ID, ARRIVAL, TIMESTAMP)

_MS_MAX: Final = ((1 << 63) - 1) // 1_000  # a producer may write any timestamp, and columns have microseconds
_VALUES: Final[Mapping[str, Callable[[WaitingRecord], Any]]] = {
    "key": lambda it: it.key,
    "value": lambda it: it.value,
    "timestamp": lambda it: max(min(it.timestamp_ms, _MS_MAX), -_MS_MAX) * 1_000,
    HEADERS_COLUMN: lambda it: [(one.name, one.value) for one in it.headers if one.name not in _IN_COLUMNS],
    ARRIVAL_COLUMN: lambda it: it.arrival,
    DELIVER_AT_COLUMN: lambda it: it.due_ms * 1_000,
    TIMER_ID_COLUMN: lambda it: it.timer_id,
}
"""The value of each column, except for `topic` and `partition`, which are the same in all rows of a page."""


def schema(columns: Sequence[str] | None, *, has_headers: bool) -> pa.Schema:
    """
    Return the schema of a read: that of the given columns, in this order, or of all columns.

    Raise ValueError for an unknown column.
    """
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC")
    own = {ARRIVAL_COLUMN: pa.int64(), DELIVER_AT_COLUMN: moment, TIMER_ID_COLUMN: pa.binary()}
    every = {it.name: it for it in arrow.schema(include_headers=True) if it.name not in RELEASED_COLUMNS}
    every |= {name: pa.field(name, kind) for name, kind in own.items()}
    if columns is None:
        columns = [name for name in every if has_headers or name != HEADERS_COLUMN]
    unknown = next((name for name in columns if name not in every), None)
    if unknown is not None:
        raise ValueError(problem(unknown, every))
    return pa.schema([every[name] for name in columns])


def problem(column: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """Return the text of an error for a column that records do not have while they wait."""
    if column in RELEASED_COLUMNS:
        return f"column {column!r} exists only when a record is released: with records=waiting, use {', '.join(known)}"
    return f"column {column!r} is unknown with records=waiting; the columns are {', '.join(known)}"


def refuse(columns: Sequence[str]) -> None:
    """Raise ValueError for a column that only records that wait have."""
    asked = next((name for name in columns if name.lower() in WAITING_COLUMNS), None)
    if asked is not None:
        raise ValueError(f"column {asked!r} requires option records=waiting")


def rows_of(records: Sequence[WaitingRecord], topic: str, partition: int, columns: pa.Schema) -> pa.RecordBatch:
    """Return records of a partition with these columns, which are some of `schema`."""
    import pyarrow as pa

    same = {"topic": topic, "partition": partition}
    arrays = [
        pa.repeat(pa.scalar(same[field.name], field.type), len(records))
        if field.name in same
        else pa.array(map(_VALUES[field.name], records), field.type)
        for field in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)

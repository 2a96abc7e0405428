"""Finds rows that cannot be written.  An error names the topic, the partition, the row (from 0) and the fix."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class RowRefused(ValueError):
    """A row cannot be written.  The message names the topic, the partition, the row (from 0) and the fix."""


def check(rows: "pa.RecordBatch", rows_before: int) -> None:
    """
    Check the columns `topic`, `timestamp` and `headers` of rows that `sink_schema.sink_rows` has returned.

    `rows_before` is the number of the first row.  Raise RowRefused for the first fault.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = rows.schema.names
    if "topic" in names and rows.column("topic").null_count:
        row = pc.index(rows.column("topic").is_null(), True).as_py()
        raise RowRefused(
            "null topic present in the data. Use the topic option for setting a topic, or fill the column 'topic': "
            f"row {rows_before + row}"
        )
    if "timestamp" in names:
        numbers = rows.column("timestamp").cast(pa.int64())
        least = pc.min(numbers).as_py()
        if least is not None and least < 0:
            row = pc.index(pc.less(numbers, 0), True).as_py()
            raise RowRefused(
                f"{topic_of(rows, row)}row {rows_before + row}: timestamp {rows.column('timestamp')[row]} is before "
                "1970: correct it, or drop the column to write the current time"
            )
    if "headers" in names:
        entries = rows.column("headers").flatten()
        bad = pc.or_(entries.is_null(), entries.field("key").is_null()) if len(entries) else None
        if bad is not None and pc.any(bad).as_py():
            entry = pc.index(bad, True).as_py()
            row = pc.list_parent_indices(rows.column("headers"))[entry].as_py()
            raise RowRefused(
                f"{topic_of(rows, row)}row {rows_before + row}: a header has no key: remove it, or give it a key"
            )


def topic_of(rows: "pa.RecordBatch", row: int) -> str:
    """Return the beginning of an error message, with the topic of a row; empty if all rows have the same topic."""
    return f"topic {rows.column('topic')[row].as_py()!r}, " if "topic" in rows.schema.names else ""

"""Reduces the records of a partition to the newest record of every key, in bounded memory.  It runs in executors."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

GATHERED_BYTES_MAX: Final = 32 << 20  # size of the records that are reduced together
KEPT_BYTES_MAX: Final = 64 << 20  # size of the newest records; if exceeded, they are returned, and keys may repeat

MERGED: Final = "merged"
"""The column with the number of records that were reduced to a row."""


class NewestRows:
    """
    Takes the records of a partition in offset order, and returns rows with the newest record of every key.

    If the keys do not fit into the memory limit, several rows with the same key may be returned; the row with the
    greatest offset is the newest.  There is always a row without a key, to which all records without a key are reduced.
    """

    def __init__(
        self,
        schema: "pa.Schema",
        *,
        gathered_bytes_max: int = GATHERED_BYTES_MAX,
        kept_bytes_max: int = KEPT_BYTES_MAX,
    ) -> None:
        """`schema` is the schema of the records."""
        self._gathered_bytes_max = gathered_bytes_max
        self._kept_bytes_max = kept_bytes_max
        self._kept = _without_record(schema)
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0

    def add(self, records: "pa.RecordBatch") -> Iterator["pa.RecordBatch"]:
        """Add records.  Yield rows if they exceed the memory limit."""
        self._gathered.append(records)
        self._gathered_bytes += records.nbytes
        if self._gathered_bytes >= self._gathered_bytes_max:
            self._reduce()
            if self._kept.nbytes >= self._kept_bytes_max:
                yield from self.flush()

    def flush(self) -> Iterator["pa.RecordBatch"]:
        """Yield the remaining rows."""
        self._reduce()
        yield from self._kept.to_batches()
        self._kept = self._kept.slice(0, 0)

    def _reduce(self) -> None:
        import pyarrow as pa

        if not self._gathered:
            return
        new = pa.Table.from_batches(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        new = new.append_column(MERGED, pa.repeat(pa.scalar(1, pa.int64()), new.num_rows))
        self._kept = _newest(pa.concat_tables([self._kept, new]))


def _without_record(schema: "pa.Schema") -> "pa.Table":
    """Return one row without a key, whose count of records is 0."""
    import pyarrow as pa

    columns = {field.name: pa.nulls(1, field.type) for field in schema}
    return pa.table({**columns, MERGED: pa.array([0], pa.int64())})


def _newest(rows: "pa.Table") -> "pa.Table":
    """Return the last row of every key, with the column MERGED summed over all rows of the key."""
    import pyarrow as pa

    numbers = pa.array(range(rows.num_rows), pa.int64())
    keys = pa.table({"key": rows.column("key"), "row": numbers, MERGED: rows.column(MERGED)})
    # Use one thread, because Spark runs one task per core.
    found = keys.group_by("key", use_threads=False).aggregate([("row", "max"), (MERGED, "sum")])
    last = rows.drop_columns([MERGED]).take(found.column("row_max"))
    return last.append_column(MERGED, found.column(f"{MERGED}_sum")).combine_chunks()

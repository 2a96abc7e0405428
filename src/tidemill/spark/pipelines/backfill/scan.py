"""Checks every row before the first record is written: counts the records of each file, and finds rows that cannot be
written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from tidemill.spark.pipelines.backfill.record_columns import PARTITION, TIMESTAMP, RecordColumns, record_bytes
from tidemill.spark.pipelines.backfill.source_format import BLOCK, FILE, PLACE, ROW, UNPARSED, ListedFile, SourceFormat
from tidemill.spark.pipelines.backfill.time_groups import SourceFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FRAMING: Final = 100  # bytes of a batch in addition to the key, value and headers of its only record
_SHOWN: Final = 100  # characters of a row that an error message shows


class RowsRefused(ValueError):
    """A file has rows that cannot be written.  The message names the file, the first such row and the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    name: str
    what: str
    fix: str


_FAULTS: Final = (
    _Fault(name="unparsed", what="does not fit the schema", fix="correct the row, or schema and reader"),
    _Fault(name="no_time", what="has no event time in the column {timestamp}", fix="fill it, or remove the row"),
    _Fault(name="before_1970", what="has an event time before 1970 in the column {timestamp}", fix="correct it"),
    _Fault(
        name="no_partition",
        what="has a partition in the column {partition} that the topic does not have (0 to {partition_max})",
        fix="correct it, or leave it null to choose by key",
    ),
    _Fault(
        name="too_large",
        what="is a record above max.message.bytes={bytes_max} of the topic",
        fix="raise that, set kafka.compression.type, or choose a smaller value",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Reads the source files and evaluates the expressions of the record columns."""

    spark: "SparkSession"
    format: SourceFormat
    schema: "StructType"
    columns: RecordColumns
    batch_bytes_max: int | None  # largest batch of the topic; None: records are compressed, or it is unknown

    def files(self, listed: Sequence[ListedFile]) -> list[SourceFile]:
        """Return the files that have rows.  Raise RowsRefused for a row that cannot be written."""
        from pyspark.sql import functions as f

        time_us = f.unix_micros(TIMESTAMP)
        counted = (
            self._judged([file.path for file in listed])
            .groupBy(FILE, PARTITION)
            .agg(
                f.count(f.lit(1)),
                f.sum(record_bytes(len(self.columns.options.header_columns))),
                f.min(time_us),
                f.max(time_us),
                *(f.count_if(fault.name) for fault in _FAULTS),
            )
            .collect()
        )
        by_uri: dict[str, list[tuple[int, ...]]] = {}
        for uri, *row in counted:
            by_uri.setdefault(uri, []).append(tuple(row))
        self._refuse(listed, by_uri)
        return [_source_file(file, by_uri[file.uri]) for file in listed if file.uri in by_uri]

    def _refuse(self, listed: Sequence[ListedFile], by_uri: dict[str, list[tuple[int, ...]]]) -> None:
        for index, fault in enumerate(_FAULTS):
            counts = {file.path: sum(row[5 + index] for row in by_uri.get(file.uri, ())) for file in listed}
            bad = {path: count for path, count in counts.items() if count}
            if bad:
                raise RowsRefused(self._sentence(fault, bad))

    def _sentence(self, fault: _Fault, bad: dict[str, int]) -> str:
        """
        Return the error message for the first row with this fault; `bad` contains the number of such rows per file.
        """
        from pyspark.sql import functions as f

        path = min(bad)
        judged = self._judged([path])
        # Collect all columns of the record: Spark parses only the columns that a query needs, and would miss a fault in
        # another column.
        first = judged.filter(fault.name).orderBy(BLOCK, ROW).limit(1).collect()[0]
        block, row, text = first[BLOCK], first[ROW], first[UNPARSED]
        number = judged.filter((f.col(BLOCK) < block) | ((f.col(BLOCK) == block) & (f.col(ROW) <= row))).count()
        options = self.columns.options
        what = fault.what.format(
            timestamp=options.timestamp,
            partition=options.partition,
            partition_max=self.columns.partition_count - 1,
            bytes_max=self.batch_bytes_max,
        )
        shown = "" if text is None else f" ({text if len(text) <= _SHOWN else text[:_SHOWN] + '…'!r})"
        others = sum(bad.values()) - 1
        more = f"; so {'do' if fault.name == 'unparsed' else 'are'} {others:,} more rows" if others else ""
        return f"{unquote(path)}, row {number}{shown}: it {what}{more}: {fault.fix}"

    def _judged(self, paths: Sequence[str]) -> "DataFrame":
        """Return the records of the files, with a boolean column for each kind of fault."""
        from pyspark.sql import functions as f

        rows = self.format.rows(self.spark, self.schema, paths)
        return self.columns.of(rows, UNPARSED, *PLACE).withColumns(
            {
                "unparsed": f.col(UNPARSED).isNotNull(),
                "no_time": f.col(TIMESTAMP).isNull(),
                "before_1970": f.unix_micros(TIMESTAMP) < 0,
                "no_partition": ~f.col(PARTITION).between(0, self.columns.partition_count - 1),
                "too_large": self._is_too_large(),
            }
        )

    def _is_too_large(self) -> "Column":
        from pyspark.sql import functions as f

        if self.batch_bytes_max is None:
            return f.lit(False)
        return record_bytes(len(self.columns.options.header_columns)) > self.batch_bytes_max - _FRAMING


def _source_file(file: ListedFile, rows: Sequence[tuple[int, ...]]) -> SourceFile:
    """
    Return a file with the scan's results.

    `rows` has a tuple per partition of the topic: number, records, bytes, first and last event time.
    """
    return SourceFile(
        path=file.path,
        size=file.size,
        modified_ms=file.modified_ms,
        records=sum(row[1] for row in rows),
        bytes=sum(row[2] for row in rows),
        first_us=min(row[3] for row in rows),
        last_us=max(row[4] for row in rows),
        partitions={row[0]: row[1] for row in rows},
    )

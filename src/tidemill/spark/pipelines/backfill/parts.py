"""Divides a group of files into parts: a single part, or the slices into which overlapping files are sorted."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.spark.pipelines.backfill.record_columns import PARTITION, TIMESTAMP, RecordColumns, record_bytes
from tidemill.spark.pipelines.backfill.source_format import BLOCK, FILE, PLACE, ROW, SourceFormat, escaped
from tidemill.spark.pipelines.backfill.time_groups import FileGroup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """
    Records that are written together; a run resumes with the first part that is not done.

    No record of a part has an earlier event time than a record of the previous parts.
    """

    paths: tuple[str, ...]
    is_sorted: bool  # True: Parquet files with records, in the state directory; False: source files
    records: int
    bytes: int
    first_us: int
    last_us: int
    partitions: dict[int, int]  # records per partition of the topic


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReader:
    """Reads the records of source files and of sorted parts."""

    spark: "SparkSession"
    format: SourceFormat
    schema: "StructType"
    columns: RecordColumns

    def records(self, part: Part) -> "DataFrame":
        """Return the records of a part, with the columns PLACE, which sort them in file order."""
        if not part.is_sorted:
            return self._of_files(part.paths)
        from pyspark.sql import functions as f

        return self._sorted(part.paths).select(
            *self.columns.names(),
            f.col("_metadata.file_path").alias(FILE),
            f.col("_metadata.file_block_start").alias(BLOCK),
            f.monotonically_increasing_id().alias(ROW),
        )

    def sort(self, group: FileGroup, directory: Path, part_count: int) -> list[Part]:
        """
        Sort the records of a group into about `part_count` files, and return them as parts in event-time order.

        Files that an earlier attempt has left in `directory` are replaced.  Spark can sort on disk, so memory is
        bounded.
        """
        from pyspark.sql import functions as f

        target = f"file:{directory}"
        records = self._of_files([file.path for file in group.files])
        (
            records.repartitionByRange(part_count, TIMESTAMP)
            .sortWithinPartitions(TIMESTAMP, *PLACE)
            .drop(*PLACE)
            .write.mode("overwrite")
            .option("compression", "zstd")
            .parquet(target)
        )
        time_us = f.unix_micros(TIMESTAMP)
        counted = (
            self._sorted([target])
            .groupBy(f.col("_metadata.file_name"), PARTITION)
            .agg(
                f.count(f.lit(1)),
                f.sum(record_bytes(len(self.columns.options.header_columns))),
                f.min(time_us),
                f.max(time_us),
            )
            .collect()
        )
        by_name: dict[str, list[tuple[int, ...]]] = {}
        for name, *row in counted:
            by_name.setdefault(name, []).append(tuple(row))
        return checked([_part(f"{target}/{name}", rows) for name, rows in by_name.items()], group)

    def _sorted(self, paths: Sequence[str]) -> "DataFrame":
        # With an explicit schema, Spark does not have to infer one from the files.
        return self.spark.read.schema(self.columns.record_schema()).parquet(*escaped(paths))

    def _of_files(self, paths: Sequence[str]) -> "DataFrame":
        return self.columns.of(self.format.rows(self.spark, self.schema, paths), *PLACE)


def of_group(group: FileGroup) -> Part:
    """Return the single part of a group whose files are not sorted before they are written."""
    partitions: dict[int, int] = {}
    for file in group.files:
        for partition, records in file.partitions.items():
            partitions[partition] = partitions.get(partition, 0) + records
    return Part(
        paths=tuple(file.path for file in group.files),
        is_sorted=False,
        records=group.records,
        bytes=group.bytes,
        first_us=group.first_us,
        last_us=group.last_us,
        partitions=partitions,
    )


def checked(parts: Sequence[Part], group: FileGroup) -> list[Part]:
    """
    Return the parts of a group of files in event-time order.

    Raise ValueError if the parts and the group differ in their number of records, because a file has changed since the
    scan.
    """
    ordered = sorted(parts, key=lambda part: (part.first_us, part.last_us))
    found = sum(part.records for part in ordered)
    if found != group.records:
        raise ValueError(
            f"{group.files[0].path} and the {len(group.files) - 1} files that overlap it have {found} records, and had "
            f"{group.records} when the run was planned: restore them, or start again with another state directory"
        )
    assert all(before.last_us <= after.first_us for before, after in pairwise(ordered)), "Spark has sorted the records"
    return ordered


def _part(path: str, rows: Sequence[tuple[int, ...]]) -> Part:
    """
    Return the part in a sorted file.  `rows` has a tuple per partition: number, records, bytes, first and last event
    time.
    """
    return Part(
        paths=(path,),
        is_sorted=True,
        records=sum(row[1] for row in rows),
        bytes=sum(row[2] for row in rows),
        first_us=min(row[3] for row in rows),
        last_us=max(row[4] for row in rows),
        partitions={row[0]: row[1] for row in rows},
    )

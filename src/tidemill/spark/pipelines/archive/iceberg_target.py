"""An archive in an Iceberg table.  Only this module imports PyIceberg.

Spark writes the files of a batch below the table's location, and a commit adds them to the table in one snapshot.  The
snapshot's property `tidemill.archive.entry` contains the batch's entry, so the newest snapshot with this property
determines where the next batch begins; snapshots of other writers, such as a compaction, are ignored.

Files written by a killed run belong to no snapshot.  They are listed in the state directory, and the next run with the
same state directory removes them.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, HourTransform
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tidemill.spark.pipelines.archive import batch_entry
from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused, BatchEntry
from tidemill.spark.pipelines.archive.layout import PartitionBy
from tidemill.spark.pipelines.archive.options import ArchiveOptions
from tidemill.spark.pipelines.archive.staging import Staging
from tidemill.spark.pipelines.archive.target import StagedFiles
from tidemill.spark.pipelines.frame.state_directory import StateDirectory

ENTRY: Final = "tidemill.archive.entry"  # a snapshot property: the entry without its files, as JSON
BATCH: Final = "tidemill.archive.batch"  # a snapshot property: the number of the batch
TOPIC: Final = "tidemill.archive.topic"  # a table property: the topic of the archive
_STAGING: Final = "staging"  # in the state directory: the files that the current run writes
_ATTEMPTS_MAX: Final = 5  # a commit is tried again if another writer has committed to the table first
_RETRIES: Final = "commit.retry.num-retries"

_HEADER: Final = StructType(NestedField(12, "key", StringType()), NestedField(13, "value", BinaryType()))
_SCHEMA: Final = Schema(
    NestedField(1, "key", BinaryType()),
    NestedField(2, "value", BinaryType()),
    NestedField(3, "topic", StringType()),
    NestedField(4, "partition", IntegerType()),
    NestedField(5, "offset", LongType()),
    NestedField(6, "timestamp", TimestamptzType()),
    NestedField(7, "timestampType", IntegerType()),
    NestedField(8, "headers", ListType(11, _HEADER, element_required=False)),
)
_SPECS: Final = {
    PartitionBy.HOUR: PartitionSpec(PartitionField(6, 1000, HourTransform(), "timestamp_hour")),
    PartitionBy.DATE: PartitionSpec(PartitionField(6, 1000, DayTransform(), "timestamp_day")),
    PartitionBy.NONE: UNPARTITIONED_PARTITION_SPEC,
}


class IcebergTarget:
    """A table in an Iceberg catalog.  Its location must be a directory that the driver and the executors share."""

    def __init__(self, options: ArchiveOptions, state: StateDirectory) -> None:
        self._options = options
        self._state = state
        self._catalog: Catalog = load_catalog(options.iceberg_catalog, **options.catalog_properties)

    def close(self) -> None:
        self._catalog.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """
        Create the table if it does not exist.

        No lock is held: if two runs commit the same batch, the second commit is refused, and each run touches only the
        files that its own state directory lists.
        """
        self._create()
        yield

    def last(self) -> BatchEntry | None:
        table = self._table()
        return None if table is None else self._newest(table)

    def clean(self, last: BatchEntry | None) -> None:
        left = self._state.read(_STAGING)
        if left is not None and (last is None or left["number"] > last.number):
            Staging(left["number"], left["batch_id"], Path(left["path"])).remove()

    def stage(self, number: int) -> Staging:
        table = self._create()
        batch_id = uuid.uuid4().hex[:16]
        path = self._directory(table) / "data" / f"{number:010}-{batch_id}"
        self._state.write(_STAGING, {"number": number, "batch_id": batch_id, "path": str(path)})
        path.mkdir(parents=True)
        return Staging(number, batch_id, path)

    def commit(self, staging: Staging, entry: BatchEntry, files: StagedFiles) -> BatchEntry:
        entry = entry.without_files()
        properties = {BATCH: str(entry.number), ENTRY: json.dumps(entry.to_json())}
        for attempt in range(_ATTEMPTS_MAX):
            table = self._create()
            self._check_is_next(table, entry)
            # Disable PyIceberg's retries: a retry would add the files on top of a batch that another run has committed
            # meanwhile.
            table.metadata.properties[_RETRIES] = "0"
            try:
                table.add_files([str(path) for path, _ in files], properties, check_duplicate_files=False)
                break
            except CommitFailedException:
                if attempt == _ATTEMPTS_MAX - 1:
                    raise
        return entry

    def _check_is_next(self, table: Table, entry: BatchEntry) -> None:
        newest = self._newest(table)
        if entry.number != (0 if newest is None else newest.number + 1):
            raise ArchiveRefused(
                f"to={self._options.to}: another run has committed batch {entry.number} meanwhile; let only one run "
                "write to a table, and run again"
            )

    def _newest(self, table: Table) -> BatchEntry | None:
        """Return the entry of the newest snapshot that has one, among the current snapshot and its ancestors."""
        if TOPIC not in table.properties:
            raise ArchiveRefused(f"to={self._options.to}: this table is not an archive; name one that does not exist")
        snapshot = table.current_snapshot()
        is_empty = snapshot is None
        while snapshot is not None:
            text = None if snapshot.summary is None else snapshot.summary[ENTRY]
            if text is not None:
                return batch_entry.from_text(text, f"snapshot {snapshot.snapshot_id} of {self._options.to}")
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        if is_empty:
            return None
        raise ArchiveRefused(
            f"to={self._options.to}: no snapshot has the property {ENTRY} any more, so it is unknown what is archived; "
            "keep the newest snapshot that has it when snapshots expire, or archive to another table"
        )

    def _table(self) -> Table | None:
        try:
            return self._catalog.load_table(self._options.to)
        except NoSuchTableError:
            return None

    def _create(self) -> Table:
        table = self._table()
        if table is None:
            self._catalog.create_namespace_if_not_exists(self._options.to.rpartition(".")[0])
            table = self._catalog.create_table_if_not_exists(
                self._options.to,
                _SCHEMA,
                partition_spec=_SPECS[self._options.partition_by],
                properties={TOPIC: self._options.topic},
            )
        return table

    def _directory(self, table: Table) -> Path:
        location = table.location()
        if "://" in location and not location.startswith("file:///"):
            raise ArchiveRefused(
                f"to={self._options.to}: the table is at {location}; use a table in a directory that driver and "
                "executors share"
            )
        return Path(location.removeprefix("file://"))

"""The staging directory into which Spark writes one batch before it is committed, and the files that it contains.

The directory must have the same path on the driver and on the executors.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidemill.spark.pipelines.archive.batch_entry import DataFile, LostOffsets

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Staging:
    """The directory of one attempt to write one batch; every attempt has its own."""

    number: int  # number of the batch
    batch_id: str
    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def losses(self) -> Path:
        return self.path / "losses"

    def files(self) -> Iterator[tuple[Path, DataFile]]:
        """
        Yield each Parquet file that has rows, in path order, with the values from its footer.

        The path in a DataFile is relative to `data`.
        """
        for path in sorted(self.data.rglob("*.parquet")):
            found = _described(path, path.relative_to(self.data).as_posix())
            if found.rows:
                yield path, found

    def lost(self) -> list[LostOffsets]:
        """
        Return the offsets that tasks could not read.  A loss that several attempts of a task report is returned several
        times.
        """
        found = []
        for path in sorted(self.losses.glob("*.json")) if self.losses.exists() else []:
            for row in map(json.loads, path.read_text().splitlines()):
                found.append(LostOffsets(partition=row["partition"], start=row["start_offset"], end=row["end_offset"]))
        return found

    def remove(self) -> None:
        """
        Remove the directory.

        Files that cannot be removed are left to the next run: executors of a killed driver may still write to the
        directory.
        """
        shutil.rmtree(self.path, ignore_errors=True)


def merged(lost: list[LostOffsets]) -> tuple[LostOffsets, ...]:
    """Merge ranges of lost offsets, so that none of the returned ranges overlap."""
    result: list[LostOffsets] = []
    for one in sorted(lost, key=lambda one: (one.partition, one.start)):
        before = result[-1] if result else None
        if before is not None and before.partition == one.partition and one.start <= before.end:
            end = max(before.end, one.end)
            result[-1] = LostOffsets(partition=one.partition, start=before.start, end=end)
        else:
            result.append(one)
    return tuple(result)


def _described(path: Path, name: str) -> DataFile:
    from pyarrow import parquet

    footer = parquet.read_metadata(path)
    column = footer.schema.to_arrow_schema().get_field_index("timestamp")
    times: list[Any] = []
    for group in range(footer.num_row_groups):
        # A row group numbers leaf columns, not columns.  Only the last column, `headers`, has several leaves, so
        # `timestamp` has the same number in the row group as in the schema.
        statistics = footer.row_group(group).column(column).statistics
        if statistics is not None and statistics.has_min_max:
            times += [statistics.min, statistics.max]
    return DataFile(
        path=name,
        bytes=path.stat().st_size,
        rows=footer.num_rows,
        timestamp_ms_min=_ms(min(times)) if times else None,
        timestamp_ms_max=_ms(max(times)) if times else None,
    )


def _ms(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)

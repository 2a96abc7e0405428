"""What an archive is written to: a directory of Parquet files, or an Iceberg table."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tidemill.spark.pipelines.archive.batch_entry import BatchEntry, DataFile
from tidemill.spark.pipelines.archive.staging import Staging

StagedFiles = Sequence[tuple[Path, DataFile]]


class Target(Protocol):
    """
    Batches are committed one after the other; a commit is atomic.

    A call of `commit` for a number that another run has committed raises ArchiveRefused and changes nothing.
    """

    def close(self) -> None:
        """Close connections."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Hold the target for this run, and create it.  Raise ArchiveRefused if another run holds it."""
        ...

    def last(self) -> BatchEntry | None:
        """Return the newest committed batch.  Nothing is written."""
        ...

    def clean(self, last: BatchEntry | None) -> None:
        """Remove what runs that were killed have left behind.  Call it while holding the target."""
        ...

    def stage(self, number: int) -> Staging:
        """Return a new directory for a batch."""
        ...

    def commit(self, staging: Staging, entry: BatchEntry, files: StagedFiles) -> BatchEntry:
        """
        Add the files to the target, together with `entry`, and return the entry as it was stored.

        It is durable when the call returns.
        """
        ...

"""The port for the target of an archive: a directory of Parquet files, or an Iceberg table."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tidemill.spark.pipelines.archive.batch_entry import BatchEntry, DataFile
from tidemill.spark.pipelines.archive.staging import Staging

StagedFiles = Sequence[tuple[Path, DataFile]]


class Target(Protocol):
    """
    The target of an archive.  Batches are committed one after the other; a commit is atomic.

    A call of `commit` for a batch number that another run has committed raises ArchiveRefused and changes nothing.
    """

    def close(self) -> None:
        """Close the target's connections, if it has any."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Lock the target, and create it if needed.  Raise ArchiveRefused if another run holds the lock."""
        ...

    def last(self) -> BatchEntry | None:
        """Return the newest committed batch, without writing anything."""
        ...

    def clean(self, last: BatchEntry | None) -> None:
        """Remove the files that killed runs have left behind.  Call this method only inside `locked`."""
        ...

    def stage(self, number: int) -> Staging:
        """Return a new staging directory for a batch."""
        ...

    def commit(self, staging: Staging, entry: BatchEntry, files: StagedFiles) -> BatchEntry:
        """
        Add the files and `entry` to the target, and return the entry as it was stored.

        The commit is durable when the call returns.
        """
        ...

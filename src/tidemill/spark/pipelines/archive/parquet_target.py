"""An archive of Parquet files in a directory.  Layout: docs/formats/pipelines.md.

A batch is committed in these steps, of which only the third is visible to readers of the manifest:

1. its entry is written to the staging directory and made durable;
2. its files are moved from the staging directory to their final paths and made durable;
3. the entry is linked into the manifest, unless the manifest already has an entry with this number;
4. the staging directory is removed.

A run that finds an old staging directory renames it, so that nothing can be linked from it, and then removes it.  If
the entry in it is not in the manifest, the run also removes the files that the entry lists.
"""

import errno
import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from tidemill.spark.pipelines.archive import batch_entry
from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused, BatchEntry, DataFile
from tidemill.spark.pipelines.archive.manifest import MANIFEST, entry_path, last_entry, read_entry
from tidemill.spark.pipelines.archive.staging import Staging
from tidemill.spark.pipelines.archive.target import StagedFiles

STAGING: Final = "_staging"
_ENTRY: Final = "entry.json"
_LOCK: Final = "lock"
_REMOVED: Final = "removed-"


class ParquetTarget:
    """An archive in a directory, whose path is the same on the driver, on the executors and in later runs."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    def close(self) -> None: ...

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock that the kernel releases when the process ends, even if it is killed."""
        manifest = self._path / MANIFEST
        manifest.mkdir(parents=True, exist_ok=True)
        with (manifest / _LOCK).open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise ArchiveRefused(
                    f"to={self._path} is being written by process {file.read().strip()}: wait until it has ended"
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def last(self) -> BatchEntry | None:
        return last_entry(self._path)

    def clean(self, last: BatchEntry | None) -> None:
        for path in sorted((self._path / STAGING).glob("*-*")):
            if not path.name.startswith(_REMOVED):
                # Rename the old staging directory: if its run is still active, on a machine that does not share the
                # lock, that run can no longer link its entry into the manifest.
                path = path.rename(path.with_name(f"{_REMOVED}{path.name}"))
            number, _, batch_id = path.name.removeprefix(_REMOVED).partition("-")
            staging = Staging(int(number), batch_id, path)
            if (path / _ENTRY).exists() and not self._is_committed(staging):
                entry = batch_entry.from_text((path / _ENTRY).read_bytes(), str(path / _ENTRY))
                for file in entry.files:
                    (self._path / file.path).unlink(missing_ok=True)
            staging.remove()

    def stage(self, number: int) -> Staging:
        batch_id = uuid.uuid4().hex[:16]
        path = self._path / STAGING / f"{number:020}-{batch_id}"
        path.mkdir(parents=True)
        return Staging(number, batch_id, path)

    def commit(self, staging: Staging, entry: BatchEntry, files: StagedFiles) -> BatchEntry:
        placed = [(path, replace(file, path=_place(staging, index, file))) for index, (path, file) in enumerate(files)]
        entry = replace(entry, files=tuple(file for _, file in placed))
        _write(staging.path / _ENTRY, json.dumps(entry.to_json()))
        for path, file in placed:
            _move(path, self._path / file.path)
        for directory in sorted({(self._path / file.path).parent for _, file in placed}):
            _sync_up(directory, self._path)
        self._link(staging, entry)
        staging.remove()
        return entry

    def _link(self, staging: Staging, entry: BatchEntry) -> None:
        try:
            os.link(staging.path / _ENTRY, entry_path(self._path, entry.number))
        except (FileExistsError, FileNotFoundError):
            raise ArchiveRefused(
                f"to={self._path}: another run has taken over batch {entry.number} meanwhile; let only one run write "
                "to a target, and run again"
            ) from None
        _sync(self._path / MANIFEST)

    def _is_committed(self, staging: Staging) -> bool:
        if not entry_path(self._path, staging.number).exists():
            return False
        return read_entry(self._path, staging.number).batch_id == staging.batch_id


def _place(staging: Staging, index: int, file: DataFile) -> str:
    directory = PurePosixPath(file.path).parent
    return (directory / f"{staging.number:010}-{index:05}-{staging.batch_id}.parquet").as_posix()


def _write(path: Path, text: str) -> None:
    """Write a file atomically and durably: if the file exists, it is complete."""
    new = path.with_suffix(".new")
    with new.open("w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    _sync(path.parent)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _sync(source)  # Spark does not sync the files that it writes
    source.rename(target)


def _sync_up(directory: Path, top: Path) -> None:
    """Make the names in `directory` durable, and the names of `directory` and its parents up to `top`."""
    _sync(directory)
    while directory != top:
        directory = directory.parent
        _sync(directory)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync a directory
            raise
    finally:
        os.close(descriptor)

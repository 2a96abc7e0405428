"""The manifest of an archive of Parquet files: the directory `_manifest` contains one JSON file per committed batch.

A data file belongs to the archive only if an entry lists it.  Entries are numbered without gaps and never change.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidemill.spark.pipelines.archive import batch_entry
from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused, BatchEntry

MANIFEST: Final = "_manifest"
_A_NAME: Final = re.compile(r"(\d{20})\.json")


def entry_path(archive: Path, number: int) -> Path:
    return archive / MANIFEST / f"{number:020}.json"


def last_entry(archive: Path) -> BatchEntry | None:
    """Return the newest entry; None if nothing is committed.  Raise ArchiveRefused if it cannot be read."""
    numbers = _numbers(archive)
    return read_entry(archive, numbers[-1]) if numbers else None


def read_entry(archive: Path, number: int) -> BatchEntry:
    path = entry_path(archive, number)
    return batch_entry.from_text(path.read_bytes(), str(path))


def entries(archive: Path) -> Iterator[BatchEntry]:
    """Yield all entries in order.  Raise ArchiveRefused if one is missing or cannot be read."""
    before: BatchEntry | None = None
    for number in _numbers(archive):
        entry = read_entry(archive, number)
        batch_entry.check_follows(entry, before, str(entry_path(archive, number)))
        yield entry
        before = entry


def data_files(archive: Path) -> list[Path]:
    """Return the paths of all committed files.  Raise ArchiveRefused if there is no archive, or an entry is missing."""
    if not (archive / MANIFEST).is_dir():
        raise ArchiveRefused(f"{archive} is not an archive: it has no directory {MANIFEST}; check the path")
    return [archive / file.path for entry in entries(archive) for file in entry.files]


def _numbers(archive: Path) -> list[int]:
    names = (path.name for path in (archive / MANIFEST).glob("*.json"))
    return sorted(int(found[1]) for found in map(_A_NAME.fullmatch, names) if found)

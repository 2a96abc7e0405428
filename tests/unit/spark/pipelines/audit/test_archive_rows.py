"""The offsets that an archive contains, according to its manifest."""

import json
from pathlib import Path

import pytest

from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused, BatchEntry
from tidemill.spark.pipelines.archive.manifest import entry_path
from tidemill.spark.pipelines.audit import archive_rows
from tidemill.spark.pipelines.audit.bounds import Bounds


def archive_of(path: Path, *batches: dict[int, tuple[int, int]]) -> str:
    """Write the manifest entries of batches with the given ranges, and return the archive's path."""
    for number, ranges in enumerate(batches):
        entry = BatchEntry(
            number=number,
            batch_id="00",
            topic="flights",
            topic_id=None,
            partition_by="none",
            written_at="2013-01-01T00:00:00Z",
            ranges=ranges,
        )
        file = entry_path(path, number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(entry.to_json()))
    return str(path)


def test_the_offsets_of_an_archive_are_those_of_all_batches(tmp_path: Path) -> None:
    """
    The range of a partition begins with the first batch that contains the partition, and ends with the last one.
    """
    archive = archive_of(tmp_path, {0: (5, 20)}, {0: (20, 30), 1: (0, 7)}, {0: (30, 30), 1: (7, 9)})

    assert Bounds({0: 5, 1: 0}, {0: 30, 1: 9}) == archive_rows.bounds_of(archive, "flights")


def test_an_archive_without_batches_has_no_offsets(tmp_path: Path) -> None:
    """
    An archive to which no batch has been committed yet has no offsets.
    """
    (tmp_path / "_manifest").mkdir()

    assert Bounds({}, {}) == archive_rows.bounds_of(str(tmp_path), "flights")


def test_another_directory_or_topic_is_refused(tmp_path: Path) -> None:
    """
    A directory that is not an archive, or is the archive of another topic, is refused with an error that says so.
    """
    with pytest.raises(ArchiveRefused, match="is not an archive"):
        archive_rows.bounds_of(str(tmp_path), "flights")
    with pytest.raises(ValueError, match="is the archive of topic flights, not planes: name another one"):
        archive_rows.bounds_of(archive_of(tmp_path, {0: (0, 1)}), "planes")

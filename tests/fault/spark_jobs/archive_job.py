"""The pipeline `archive` as a job that tests kill and run again: whatever is killed, the archive has each offset once,
in Parquet files or in an Iceberg table.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.fault.spark_jobs.archived_rows import differences, rows_of
from tests.fault.spark_jobs.scene import session_arguments
from tests.fault.spark_jobs.topic_records import create_topic, read_all, send_numbered

_PARTITIONS: Final = 3
_BATCH: Final = 600
_RECORDS: Final = 6 * _BATCH  # enough batches that no run ends before it is killed


class ArchiveJob:
    """The archive job whose target is a directory of Parquet files."""

    name = "archive"

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._sent = 0
        self._begun: set[str] = set()  # names of all batch directories that `moments` has seen so far
        create_topic(bootstrap, self.name, _PARTITIONS)

    def prepare(self) -> None:
        send_numbered(self._bootstrap, self.name, self._sent, _RECORDS, _PARTITIONS)
        self._sent += _RECORDS

    def arguments(self, master: str) -> Sequence[str]:
        options = ["--topic", self.name, "--batch-records", str(_BATCH), "--partition-by", "none"]
        state = ["--state", str(self._directory / "state"), "--bootstrap", self._bootstrap]
        command = ["-m", "tidemill", "pipeline", "run", "archive"]
        return [*command, *options, *self._target(), *state, *session_arguments(master)]

    def moments(self) -> dict[str, int]:
        self._begun |= {path.name for path in self._batch_directories()}
        return {"batches begun": len(self._begun), "batches committed": self._committed()}

    def check(self) -> str:
        files = self._files()
        rows = rows_of(files)
        problems = differences(read_all(self._bootstrap, self.name, _PARTITIONS), rows)
        assert [] == problems[:20], f"{len(problems)} differences"
        assert self._sent == len(rows)
        assert set(files) == self._visible(files)
        return f"{len(rows)} records in {len(files)} files, each once"

    def _target(self) -> list[str]:
        return ["--to", str(self._directory / "target")]

    def _batch_directories(self) -> list[Path]:
        return list((self._directory / "target" / "_staging").glob("*"))

    def _committed(self) -> int:
        return len(self._entries())

    def _files(self) -> list[Path]:
        entries = [json.loads(path.read_bytes()) for path in self._entries()]
        return [self._directory / "target" / file["path"] for entry in entries for file in entry["files"]]

    def _visible(self, files: list[Path]) -> set[Path]:
        """Return the files that a reader finds without using the manifest."""
        return set((self._directory / "target").glob("*.parquet"))

    def _entries(self) -> list[Path]:
        return sorted((self._directory / "target" / "_manifest").glob("*.json"))


class ArchiveTableJob(ArchiveJob):
    """The archive job whose target is an Iceberg table; the catalog of the table is an SQLite file."""

    name = "archive-table"

    def _target(self) -> list[str]:
        words = [f"{name}={value}" for name, value in self._catalog().items()]
        properties = [word for one in words for word in ("--iceberg-property", one)]
        return ["--to", "archive.records", "--format", "iceberg", *properties]

    def _catalog(self) -> dict[str, str]:
        return {
            "uri": f"sqlite:///{self._directory}/catalog.db",
            "warehouse": f"file://{self._directory}/warehouse",
        }

    def _batch_directories(self) -> list[Path]:
        return list(self._directory.glob("warehouse/*/*/data/*"))

    def _committed(self) -> int:
        # Each commit writes another metadata file, and so does the creation of the table.
        return max(len(list(self._directory.glob("warehouse/*/*/metadata/*.metadata.json"))) - 1, 0)

    def _files(self) -> list[Path]:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("default", **self._catalog())
        try:
            files = catalog.load_table("archive.records").scan().plan_files()
            return [Path(one.file.file_path.removeprefix("file://")) for one in files]
        finally:
            catalog.close()

    def _visible(self, files: list[Path]) -> set[Path]:
        return set(files)  # all files, because a reader finds them through the catalog

"""The entry of one committed batch of an archive.  Format: docs/formats/pipelines.md.

The newest entry determines where the next batch begins, so an entry lists all partitions of the topic, including those
from which the batch has no records.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

FORMAT: Final = 1


class ArchiveRefused(ValueError):
    """The target cannot be written or read as an archive of this topic; the message states the reason and the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file."""

    path: str  # relative to the archive
    bytes: int
    rows: int
    timestamp_ms_min: int | None  # None if the file does not have these statistics
    timestamp_ms_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """Offsets whose records were removed from the topic before they were archived."""

    partition: int
    start: int
    end: int  # exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """One committed batch."""

    number: int  # batches are numbered from 0, without gaps
    batch_id: str  # random: distinguishes two runs that try to commit a batch with the same number
    topic: str
    topic_id: str | None  # in Kafka's text format; None if the brokers do not support topic ids
    partition_by: str
    written_at: str  # ISO 8601, UTC
    ranges: Mapping[int, tuple[int, int]]  # by partition: start and end offset (exclusive); equal if empty
    lost: tuple[LostOffsets, ...] = ()  # the parts of `ranges` that could not be read
    file_count: int = 0
    rows: int = 0  # fewer than the offsets in `ranges` if compaction or transactions leave gaps
    bytes: int = 0  # size of all files
    stored_bytes: int = 0  # estimated size of the same records in the topic
    schema: str = ""
    files: tuple[DataFile, ...] = ()  # empty for an Iceberg table, which lists its files itself

    @property
    def ends(self) -> dict[int, int]:
        return {partition: end for partition, (_, end) in self.ranges.items()}

    def without_files(self) -> "BatchEntry":
        return replace(self, files=())

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in _PLAIN},
            "ranges": {str(partition): list(self.ranges[partition]) for partition in sorted(self.ranges)},
            "lost": [asdict(one) for one in self.lost],
            "files": [asdict(file) for file in self.files],
        }


_PLAIN: Final = (
    "number", "batch_id", "topic", "topic_id", "partition_by", "written_at", "file_count", "rows", "bytes",
    "stored_bytes", "schema",
)  # fmt: skip


def from_text(text: str | bytes, where: str) -> BatchEntry:
    """Parse an entry from JSON.  Raise ArchiveRefused, which names `where`, if the text is not a valid entry."""
    try:
        value = json.loads(text)
        found = value["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveRefused(f"{where} is damaged ({error!r}): restore it from a copy") from error
    if found != FORMAT:
        raise ArchiveRefused(
            f"{where} has format {found}, and this version of Tidemill reads {FORMAT}: use the version that wrote it"
        )
    try:
        return BatchEntry(
            **{name: value[name] for name in _PLAIN},
            ranges={int(partition): (start, end) for partition, (start, end) in value["ranges"].items()},
            lost=tuple(LostOffsets(**one) for one in value["lost"]),
            files=tuple(DataFile(**file) for file in value["files"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveRefused(f"{where} is damaged ({error!r}): restore it from a copy") from error


def check_follows(entry: BatchEntry, before: BatchEntry | None, where: str) -> None:
    """Raise ArchiveRefused unless `entry` begins where `before` ends, so that no batch between them is missing."""
    number = 0 if before is None else before.number + 1
    if entry.number != number:
        raise ArchiveRefused(f"{where} has batch {entry.number} where batch {number} is due: restore what is missing")
    for partition, end in ({} if before is None else before.ends).items():
        start = entry.ranges.get(partition, (None, None))[0]
        if start != end:
            raise ArchiveRefused(
                f"{where} begins at offset {start} of partition {partition}, and batch {number - 1} ends at {end}: "
                "restore the entries from a copy"
            )

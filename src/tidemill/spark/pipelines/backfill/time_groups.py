"""
Groups files so that the groups are in event-time order.

Files whose time ranges overlap cannot be written one after the other.  They form a group whose records are sorted
together.  A single file with too many records for one part is sorted as well.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file with at least one record, and the scan's results for it."""

    path: str  # a URI, as Spark reports it
    size: int
    modified_ms: int
    records: int
    bytes: int  # size of keys, values and headers, before compression
    first_us: int  # the smallest and the largest event time, in microseconds since 1970
    last_us: int
    partitions: dict[int, int]  # records per partition of the topic


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """
    Files that are written together.

    No record of a group has an earlier event time than a record of the previous groups.
    """

    files: tuple[SourceFile, ...]
    is_sorted_first: bool  # the files are sorted into parts in the state directory; otherwise the group is one part

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def first_us(self) -> int:
        return min(file.first_us for file in self.files)

    @property
    def last_us(self) -> int:
        return max(file.last_us for file in self.files)

    def part_count(self, part_records: int) -> int:
        """Return the approximate number of parts of `part_records` records into which the group is divided."""
        return -(-self.records // part_records) if self.is_sorted_first else 1


def time_groups(files: Iterable[SourceFile], part_records: int) -> list[FileGroup]:
    """
    Return the groups in event-time order.

    Consecutive files that do not overlap share a group, and therefore a part, of up to `part_records` records.
    """
    groups: list[FileGroup] = []
    waiting: list[SourceFile] = []  # the files, so far, of the next group that needs no sorting
    for overlapping in _overlapping(files):
        records = sum(file.records for file in overlapping)
        is_sorted_first = len(overlapping) > 1 or records > part_records
        if waiting and (is_sorted_first or sum(file.records for file in waiting) + records > part_records):
            groups.append(FileGroup(files=tuple(waiting), is_sorted_first=False))
            waiting = []
        if is_sorted_first:
            groups.append(FileGroup(files=tuple(overlapping), is_sorted_first=True))
        else:
            waiting += overlapping
    if waiting:
        groups.append(FileGroup(files=tuple(waiting), is_sorted_first=False))
    return groups


def _overlapping(files: Iterable[SourceFile]) -> Iterator[list[SourceFile]]:
    """
    Yield lists of files whose time ranges overlap directly or through another file.

    Files do not overlap if one begins at the timestamp at which another ends, because records with the same
    timestamp may be in any order.
    """
    together: list[SourceFile] = []
    end_us = 0
    for file in sorted(files, key=lambda file: (file.first_us, file.last_us, file.path)):
        if together and file.first_us >= end_us:
            yield together
            together = []
        end_us = max(end_us, file.last_us) if together else file.last_us
        together.append(file)
    if together:
        yield together

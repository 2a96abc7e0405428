"""
Puts files into event-time order.

Files whose time ranges overlap cannot run one after the other.  They form a group, which is sorted together; so is a
file that alone has too many records for one part.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file with at least one record, and what the scan has found in it."""

    path: str  # as Spark names it: a URI
    size: int
    modified_ms: int
    records: int
    bytes: int  # of keys, values and headers, as they are written
    first_us: int  # the smallest and the largest event time, in microseconds since 1970
    last_us: int
    partitions: dict[int, int]  # records per partition of the topic


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files that run together.  Every record of a group is at least as late as every record of the groups before."""

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
        """Return into about how many parts of `part_records` records the group is divided."""
        return -(-self.records // part_records) if self.is_sorted_first else 1


def time_groups(files: Iterable[SourceFile], part_records: int) -> list[FileGroup]:
    """
    Return the groups in event-time order.

    Consecutive files that do not overlap share a group, and so a part, of up to `part_records` records.
    """
    groups: list[FileGroup] = []
    waiting: list[SourceFile] = []  # consecutive files of the next group that is not sorted first
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

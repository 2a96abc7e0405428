"""The records that a micro-batch of a query with mode=share has acquired, divided among Spark's tasks."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId


class AcquiredRange(NamedTuple):
    """Consecutive records that a member holds."""

    first: int
    end: int
    delivery_count: int
    member: str

    @property
    def size(self) -> int:
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class ShareWork:
    """The work of one Spark partition.  Spark pickles it."""

    group: str
    topic: str
    partition: int
    topic_id: TopicId | None
    ranges: tuple[AcquiredRange, ...]  # ascending and disjoint

    @property
    def size(self) -> int:
        """The number of records."""
        return sum(one.size for one in self.ranges)


class Piece(NamedTuple):
    """What one member has acquired."""

    partition: TopicPartition
    serial: int
    ranges: tuple[AcquiredRange, ...]


def works(
    pieces: Iterable[Piece],
    group: str,
    topic_ids: dict[str, TopicId | None],
    *,
    partitions_min: int | None = None,
    records_per_partition_max: int | None = None,
) -> list[ShareWork]:
    """
    Return the work of each Spark partition.

    Each topic partition is one Spark partition.  With the limits, it is divided into several that are about equal.
    """
    ordered = sorted(pieces, key=lambda piece: piece.partition)
    by_partition = {
        partition: sorted(one for piece in same for one in piece.ranges)
        for partition, same in groupby(ordered, key=lambda piece: piece.partition)
    }
    total = sum(one.size for ranges in by_partition.values() for one in ranges)
    planned = []
    for (topic, number), ranges in by_partition.items():
        size = sum(one.size for one in ranges)
        parts = 1
        if records_per_partition_max is not None:
            parts = math.ceil(size / records_per_partition_max)
        if partitions_min is not None:
            parts = max(parts, math.ceil(partitions_min * size / total))
        for part in _parts(ranges, math.ceil(size / parts)):
            planned.append(ShareWork(group, topic, number, topic_ids.get(topic), tuple(part)))
    return planned


def _parts(ranges: Sequence[AcquiredRange], size: int) -> Iterator[list[AcquiredRange]]:
    """Divide ranges into parts of `size` records each; the last part may be smaller."""
    part: list[AcquiredRange] = []
    room = size
    for one in ranges:
        while one.size > room:
            cut = one.first + room
            yield [*part, one._replace(end=cut)]
            part, room, one = [], size, one._replace(first=cut)
        part.append(one)
        room -= one.size
        if not room:
            yield part
            part, room = [], size
    if part:
        yield part

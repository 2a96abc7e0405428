"""Plans: which offsets a trigger takes, and how they are divided among Spark's partitions.

Everything here is arithmetic on offsets, the same for the same input, so that a micro-batch which is planned again
after a crash is the batch that was planned before.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """One Spark partition's work: [start, end) of one topic partition.  Pickled to an executor."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    topic_id: TopicId | None = None  # the topic that the offsets belong to; None where the broker has no ids

    @property
    def size(self) -> int:
        """Offsets, not records: compaction and transactions leave gaps."""
        return max(self.end_offset - self.start_offset, 0)


def divided(
    ranges: Sequence[OffsetRange], *, partitions_min: int | None = None, records_per_partition_max: int | None = None
) -> list[OffsetRange]:
    """One range per topic partition, unless the options ask for more; then equal parts of the larger ones."""
    planned = [piece for piece in ranges if piece.size > 0]
    if records_per_partition_max is not None:
        planned = [
            part for whole in planned for part in _parts(whole, math.ceil(whole.size / records_per_partition_max))
        ]
    if partitions_min is None or len(planned) >= partitions_min:
        return planned
    total = sum(piece.size for piece in planned)
    # Small ranges stay whole and leave the count that is asked for to the large ones.
    small = {piece for piece in planned if _part_count(piece.size, total, partitions_min) == 1}
    large_total = total - sum(piece.size for piece in small)
    large_parts = max(partitions_min - len(small), 1)
    return [
        part
        for piece in planned
        for part in _parts(piece, 1 if piece in small else _part_count(piece.size, large_total, large_parts))
    ]


def _part_count(size: int, total: int, parts_wanted: int) -> int:
    return max(math.floor(size / total * parts_wanted + 0.5), 1)


def _parts(whole: OffsetRange, count: int) -> list[OffsetRange]:
    count = min(count, whole.size)
    borders = [whole.start_offset + whole.size * index // count for index in range(count + 1)]
    return [replace(whole, start_offset=start, end_offset=end) for start, end in pairwise(borders)]


def limited(start: Offsets, end: Offsets, offsets_max: int) -> dict[TopicPartition, int]:
    """
    `end`, pulled in so that about `offsets_max` offsets lie between: each partition in proportion to what waits in it.

    A partition in which anything waits gets at least one, so that a small one is never starved; with more such
    partitions than `offsets_max` the limit is exceeded by that, as in Spark's own source.
    """
    waiting = {partition: offset - start[partition] for partition, offset in end.items() if offset > start[partition]}
    total = sum(waiting.values())
    if total <= offsets_max:
        return dict(end)
    shares = {partition: size * offsets_max / total for partition, size in waiting.items()}
    return {
        partition: min(offset, start[partition] + max(math.floor(shares[partition]), 1))
        if partition in shares
        else offset
        for partition, offset in end.items()
    }


def waiting_count(start: Offsets, end: Offsets) -> int:
    """How many offsets lie between; partitions that went backwards count nothing."""
    return sum(max(offset - start.get(partition, 0), 0) for partition, offset in end.items())

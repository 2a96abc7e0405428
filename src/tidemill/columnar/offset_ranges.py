"""Plans the offsets that a trigger reads, and divides them among Spark's partitions.

A plan depends only on its input, so planning a micro-batch again after a crash gives the same plan.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidemill.columnar.size_profile import SizeProfile
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId

Offsets = Mapping[TopicPartition, int]
Profiles = Mapping[TopicPartition, SizeProfile]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The work of one Spark partition: a range of offsets of one topic partition.  Spark pickles it."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int  # exclusive
    topic_id: TopicId | None = None  # the topic id at planning time; None if the broker does not support topic ids

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets.  Because of compaction and transactions, there may be fewer records."""
        return max(self.end_offset - self.start_offset, 0)


def divided(
    ranges: Sequence[OffsetRange],
    *,
    partitions_min: int | None = None,
    records_per_partition_max: int | None = None,
    bytes_per_partition_max: int | None = None,
    profiles: Profiles | None = None,
) -> list[OffsetRange]:
    """
    Divide `ranges` among Spark's partitions; empty ranges are dropped.

    With `bytes_per_partition_max`, ranges are split into parts of equal size in bytes, as estimated by `profiles`; a
    range without a profile is not split.  With `records_per_partition_max`, ranges are split into equal parts of at
    most that size.  If this gives fewer than `partitions_min` ranges, the larger ranges are split further, into about
    `partitions_min` ranges in total.
    """
    planned = [piece for piece in ranges if piece.size > 0]
    if bytes_per_partition_max is not None:
        known = profiles or {}
        planned = [
            part
            for whole in planned
            for part in _parts_by_bytes(whole, known.get(whole.topic_partition), bytes_per_partition_max)
        ]
    if records_per_partition_max is not None:
        planned = [
            part for whole in planned for part in _parts(whole, math.ceil(whole.size / records_per_partition_max))
        ]
    if partitions_min is None or len(planned) >= partitions_min:
        return planned
    total = sum(piece.size for piece in planned)
    # Small ranges are not split.  The large ranges are split into the remaining number of parts.
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


def _parts_by_bytes(whole: OffsetRange, profile: SizeProfile | None, bytes_max: int) -> list[OffsetRange]:
    if profile is None:
        return [whole]
    count = min(-(-profile.total // bytes_max), whole.size)
    inner = {profile.offset_at(profile.total * index // count) for index in range(1, count)}
    borders = sorted({whole.start_offset, whole.end_offset, *inner})
    return [replace(whole, start_offset=start, end_offset=end) for start, end in pairwise(borders)]


def limited(start: Offsets, end: Offsets, offsets_max: int) -> dict[TopicPartition, int]:
    """
    Return end offsets, none above the one in `end`, so that about `offsets_max` offsets are read in total.

    Each partition gets a share in proportion to its pending offsets.  A partition with pending offsets gets at least
    one, so that a small partition is never starved.  If there are more such partitions than `offsets_max`, the limit is
    exceeded, as in Spark's own source.
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


def limited_by_bytes(start: Offsets, end: Offsets, profiles: Profiles, bytes_max: int) -> dict[TopicPartition, int]:
    """
    Return end offsets, none above the one in `end`, so that about `bytes_max` bytes are read in total.

    `profiles` contains the partitions with pending offsets.  Each gets a share in proportion to its pending bytes, and
    at least one offset.  A partition without a profile is not limited.
    """
    total = sum(profile.total for profile in profiles.values())
    if total <= bytes_max:
        return dict(end)
    return {
        partition: offset
        if (profile := profiles.get(partition)) is None
        else min(offset, max(profile.offset_at(profile.total * bytes_max // total), start[partition] + 1))
        for partition, offset in end.items()
    }


def waiting_count(start: Offsets, end: Offsets) -> int:
    """Return the number of offsets from `start` to `end`.  A partition whose end is below its start counts as 0."""
    return sum(max(offset - start.get(partition, 0), 0) for partition, offset in end.items())

"""Plans the next batch of an archive: where it begins, what is lost, and where it ends.  It sends no requests."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidemill.columnar.offset_ranges import limited, limited_by_bytes
from tidemill.columnar.size_profile import SizeProfile
from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused, BatchEntry, LostOffsets

Offsets = Mapping[TopicPartition, int]
Profiles = Mapping[TopicPartition, SizeProfile]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBounds:
    """The id and the offsets of a topic at one moment."""

    topic: str
    topic_id: str | None
    earliest: Offsets
    latest: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """The offsets of a batch.  The mappings `begins`, `starts` and `ends` contain the same partitions."""

    number: int
    topic: str
    topic_id: str | None
    begins: Offsets  # where the previous batch ended
    starts: Offsets  # the first offsets that can be read; above `begins` where records are lost
    ends: Offsets  # exclusive

    @property
    def is_empty(self) -> bool:
        return self.begins == self.ends

    @property
    def offset_count(self) -> int:
        """The number of offsets to read; there are fewer records where compaction or transactions leave gaps."""
        return sum(end - self.starts[partition] for partition, end in self.ends.items())

    @property
    def to_read(self) -> list[TopicPartition]:
        return sorted(partition for partition, end in self.ends.items() if end > self.starts[partition])

    @property
    def lost(self) -> tuple[LostOffsets, ...]:
        return tuple(
            LostOffsets(partition=partition.partition, start=begin, end=self.starts[partition])
            for partition, begin in sorted(self.begins.items())
            if begin < self.starts[partition]
        )

    def until(self, ends: Offsets) -> "PlannedBatch":
        """Return this batch with the given ends, none of which may be higher than the current end."""
        starts = {partition: min(start, ends[partition]) for partition, start in self.starts.items()}
        return replace(self, starts=starts, ends=dict(ends))


def everything(last: BatchEntry | None, bounds: TopicBounds, until: Offsets | None = None) -> PlannedBatch:
    """
    Return everything that is pending after the batch `last`, as one batch.

    A new archive begins at the log start offsets.  So does a partition that is added later, but its offsets before the
    log start count as lost.  With `until`, the batch ends at these offsets, and partitions that `until` does not
    contain are left for a later run.

    Raise ArchiveRefused if the archive belongs to another topic.
    """
    if last is not None:
        check_topic(last, bounds)
    begins: dict[TopicPartition, int] = {}
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    archived = {} if last is None else last.ends
    for partition, latest in bounds.latest.items():
        known = archived.get(partition.partition)
        if known is None and until is not None and partition not in until:
            continue
        begin = known if known is not None else bounds.earliest[partition] if last is None else 0
        end = latest if until is None else min(latest, until.get(partition, begin))
        begins[partition] = begin
        ends[partition] = max(end, begin)
        starts[partition] = min(max(begin, bounds.earliest[partition]), ends[partition])
    return PlannedBatch(
        number=0 if last is None else last.number + 1,
        topic=bounds.topic,
        topic_id=bounds.topic_id,
        begins=begins,
        starts=starts,
        ends=ends,
    )


def bounded(batch: PlannedBatch, profiles: Profiles, *, records_max: int, bytes_max: int) -> PlannedBatch:
    """
    Return the first part of `batch` with at most about `records_max` offsets and `bytes_max` stored bytes.

    Each partition with pending records gets a proportional share, and at least one offset, so the parts of the
    partitions cover about the same period of time.
    """
    by_records = limited(batch.starts, batch.ends, records_max)
    by_bytes = limited_by_bytes(batch.starts, batch.ends, profiles, bytes_max)
    return batch.until({partition: min(end, by_bytes[partition]) for partition, end in by_records.items()})


def stored_bytes(batch: PlannedBatch, profiles: Profiles) -> int:
    """Return the estimated stored size of `batch` in bytes; `profiles` may extend beyond the batch's ends."""
    return sum(
        profiles[partition].size_before(batch.ends[partition]) for partition in batch.to_read if partition in profiles
    )


def check_division(last: BatchEntry | None, partition_by: str) -> None:
    """Raise ArchiveRefused if the files of the archive are not partitioned by `partition_by`."""
    if last is not None and last.partition_by != partition_by:
        raise ArchiveRefused(
            f"partition_by={partition_by}: the target has {last.partition_by}; pass that, or use another target"
        )


def check_topic(last: BatchEntry, bounds: TopicBounds) -> None:
    """
    Raise ArchiveRefused if `bounds` and `last` belong to different topics, or the topic was deleted and created again.
    """
    fix = "archive it to another target, or remove this one"
    if last.topic != bounds.topic:
        raise ArchiveRefused(f"topic={bounds.topic}: the target has topic {last.topic!r}; use another target")
    if None not in (last.topic_id, bounds.topic_id) and last.topic_id != bounds.topic_id:
        raise ArchiveRefused(
            f"topic={bounds.topic} was deleted and created again after batch {last.number} (its id was {last.topic_id} "
            f"and is {bounds.topic_id}): {fix}"
        )
    for number, end in sorted(last.ends.items()):
        latest = bounds.latest.get(TopicPartition(bounds.topic, number))
        if latest is None:
            raise ArchiveRefused(
                f"topic={bounds.topic} has no partition {number}, which is archived up to offset {end}: the topic was "
                f"deleted and created again; {fix}"
            )
        if latest < end:
            raise ArchiveRefused(
                f"topic={bounds.topic}: partition {number} ends at offset {latest}, and is archived up to {end}: the "
                f"topic was deleted and created again, or has lost records; {fix}"
            )

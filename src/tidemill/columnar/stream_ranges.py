"""What a streaming query reads: its start, its latest end, and the ranges of a micro-batch.

Data loss means that offsets which the query should have read no longer exist: the start is below the log start, a
partition is missing, or a topic was deleted and created again.  Gaps (from compaction or transaction markers) are not
data loss.
"""

from collections.abc import Iterable, Mapping, Sequence

from tidemill.columnar.data_loss import Lost
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.offset_reader import OffsetReader, Offsets
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId


class StreamRanges:
    """Resolves the offsets of one query.  The object remembers the ids of the topics that this run has read."""

    def __init__(self, options: SourceOptions, reader: OffsetReader) -> None:
        self._options = options
        self._reader = reader
        self._topic_ids: dict[str, TopicId | None] = {}  # the id of each topic whose offsets this run has returned

    def initial(self) -> Offsets:
        """Return the start of a new query."""
        partitions = self._reader.partitions()
        starts = self._reader.resolve(self._options.starting, partitions, is_start=True)
        self._topic_ids = self._reader.topic_ids(_topics(partitions))
        return starts

    def latest(self, begin: Mapping[TopicPartition, int]) -> Offsets:
        """
        Return the end offsets of all existing partitions.

        Report as data loss the partitions of `begin` that are missing, and the topics that were created again.
        """
        existing = self._reader.partitions(is_missing_allowed=True)
        self._report_gone({partition: begin[partition] for partition in begin.keys() - set(existing)})
        self._report_recreated(existing)
        return self._reader.latest(existing, known=begin)

    def readable_start(self, begin: Offsets, ends: Offsets) -> Offsets:
        """Return the start offsets.  Partitions that are new or were created again start at their log start offset."""
        unsure = [partition for partition, end in ends.items() if begin.get(partition, end + 1) > end]
        return {**begin, **self._reader.earliest(unsure)}

    def between(self, begin: Offsets, ends: Offsets) -> list[OffsetRange]:
        """Return the ranges of a micro-batch, one per existing partition.  Report missing records as data loss."""
        if begin == ends:
            return []
        existing = set(self._reader.partitions(is_missing_allowed=True))
        self._report_gone(
            {partition: offset for partition, offset in (ends | begin).items() if partition not in existing}
        )
        kept = sorted(set(ends) & existing)
        earliest = self._reader.earliest(kept)
        topic_ids = self._reader.topic_ids(_topics(kept))
        return [
            OffsetRange(
                *partition,
                self._start_of(partition, begin.get(partition), ends[partition], earliest[partition]),
                ends[partition],
                topic_ids[partition.topic],
            )
            for partition in kept
        ]

    def _start_of(self, partition: TopicPartition, begin: int | None, end: int, earliest: int) -> int:
        name = f"{partition.topic}-{partition.partition}"
        if begin is None:
            if earliest != 0:
                what = f"The new partition {name} starts at offset {earliest} instead of 0."
                self._apply(what, Lost(*partition, 0, earliest))
            return earliest
        if end < begin:
            what = (
                f"The end of {name} decreased from offset {begin} to {end}: the topic was deleted and created again, "
                "or the query was started beyond its end."
            )
            self._apply(what, Lost(*partition, begin))
            return earliest
        if begin < min(earliest, end):
            first = min(earliest, end)
            what = f"Offsets {begin} to {first} of {name} no longer exist: it starts at {earliest}."
            self._apply(what, Lost(*partition, begin, first))
            return first
        return begin

    def _report_gone(self, gone: Mapping[TopicPartition, int]) -> None:
        """Report partitions that no longer exist, with the offset up to which each was read."""
        if gone:
            names = ", ".join(f"{topic}-{number}" for topic, number in sorted(gone))
            lost = (Lost(*partition, gone[partition]) for partition in sorted(gone))
            self._apply(f"The partitions {names} no longer exist.", *lost)

    def _report_recreated(self, existing: Sequence[TopicPartition]) -> None:
        """
        Report as data loss the topics whose id has changed since this query was started.

        Offsets alone do not show that a topic was created again if the new topic already has more records.
        """
        known = self._topic_ids
        now = self._reader.topic_ids(_topics(existing))
        for topic, topic_id in sorted(now.items(), key=lambda item: item[0]):
            if known.get(topic) is not None and topic_id is not None and topic_id != known[topic]:
                self._apply(f"Topic {topic} was deleted and created again while the query was running.", Lost(topic))
        self._topic_ids = {**known, **now}

    def _apply(self, what: str, *lost: Lost) -> None:
        self._options.data_loss.apply(what, *lost)


def _topics(partitions: Iterable[TopicPartition]) -> set[str]:
    return {partition.topic for partition in partitions}

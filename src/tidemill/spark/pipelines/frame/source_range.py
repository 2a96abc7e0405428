"""Resolves the start and end positions of a range to offsets, once, by requests to the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.columnar.offset_bound import Committed, OffsetBound, Specific
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.frame.positions import named_partitions

Offsets = Mapping[TopicPartition, int]


class RangeRefused(ValueError):
    """The topic does not contain the range that the options `start` and `end` specify."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange:
    """Offsets of the partitions to read."""

    start: Offsets
    end: Offsets  # exclusive, and not below `start`

    @property
    def offset_count(self) -> int:
        """The number of offsets.  Because of compaction and transactions, there may be fewer records."""
        return sum(end - self.start[partition] for partition, end in self.end.items())


def resolve(reader: OffsetReader, start: OffsetBound, end: OffsetBound) -> SourceRange:
    """
    Return the current offsets of the range.

    Raise RangeRefused if the topic does not contain them, UnknownTopic, or another ClientError if a request fails.
    """
    partitions = _partitions(reader.partitions(), start, end)
    starts = reader.resolve(start, partitions, is_start=False)  # False: a timestamp without a match means the end
    ends = reader.resolve(end, partitions, is_start=False)
    earliest, latest = reader.earliest(partitions), reader.latest(partitions)
    for partition in partitions:
        first, last = earliest[partition], latest[partition]
        for option, bound, offset in (("start", start, starts[partition]), ("end", end, ends[partition])):
            if not first <= offset <= last and isinstance(bound, Specific | Committed):
                raise RangeRefused(
                    f"{option}={offset} of partition {partition.partition}: topic {partition.topic!r} has its offsets "
                    f"{first} to {last}; choose from these, or write {option}="
                    f"{'earliest' if option == 'start' else 'latest'}"
                )
    starts = {partition: max(offset, earliest[partition]) for partition, offset in starts.items()}
    return SourceRange(start=starts, end={p: max(offset, starts[p]) for p, offset in ends.items()})


def _partitions(existing: list[TopicPartition], start: OffsetBound, end: OffsetBound) -> list[TopicPartition]:
    """Return the partitions that the positions name, or all partitions if they name none."""
    by_start, by_end = named_partitions(start), named_partitions(end)
    if by_start is not None and by_end is not None and by_start != by_end:
        raise RangeRefused(
            f"start names the partitions {_numbers(by_start)}, end {_numbers(by_end)}: name the same in both"
        )
    named = by_end if by_start is None else by_start
    if named is None:
        return sorted(existing)
    missing = named.difference(existing)
    if missing:
        raise RangeRefused(
            f"{'start' if by_start is not None else 'end'} names the partitions {_numbers(missing)}, and the topic "
            f"has {_numbers(existing)}: correct the numbers"
        )
    return sorted(named)


def _numbers(partitions: "list[TopicPartition] | frozenset[TopicPartition]") -> str:
    return ", ".join(str(one.partition) for one in sorted(partitions))

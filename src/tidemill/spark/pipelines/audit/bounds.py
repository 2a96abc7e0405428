"""The offsets of each partition that an audit compares, and their division into steps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Offsets = Mapping[int, int]  # offsets by partition number

# Records per Spark job.  A job takes only seconds: progress is shown often, and an interruption loses little work.
STEP_RECORDS = 5_000_000
STEP_RANGES_MAX = 10_000  # bounds the checksums that the driver collects


@dataclass(frozen=True, slots=True)
class Bounds:
    """A start offset and an end offset (exclusive) for each partition."""

    starts: Offsets
    ends: Offsets

    @property
    def offset_count(self) -> int:
        return sum(max(0, end - self.starts[partition]) for partition, end in self.ends.items())

    def clipped(self, other: "Bounds") -> "Bounds":
        """Return the intersection of these offset ranges with those of `other`."""
        starts = {partition: max(start, other.starts.get(partition, start)) for partition, start in self.starts.items()}
        ends = {
            partition: max(starts[partition], min(end, other.ends.get(partition, starts[partition])))
            for partition, end in self.ends.items()
        }
        return Bounds(starts, ends)

    def non_empty(self) -> dict[int, tuple[int, int]]:
        return {p: (start, self.ends[p]) for p, start in sorted(self.starts.items()) if start < self.ends[p]}

    def to_json(self) -> dict[str, Any]:
        return {str(partition): [start, self.ends[partition]] for partition, start in sorted(self.starts.items())}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Bounds":
        return cls(
            {int(partition): start for partition, (start, _) in value.items()},
            {int(partition): end for partition, (_, end) in value.items()},
        )


def steps(bounds: Bounds, range_records: int) -> list[Bounds]:
    """
    Divide `bounds` into the steps that are compared one after the other.

    Checksum ranges begin at multiples of `range_records`; no range is divided between two steps.
    """
    partitions = bounds.non_empty()
    ranges = max(1, min(STEP_RECORDS // range_records, STEP_RANGES_MAX) // max(1, len(partitions)))
    size = ranges * range_records
    borders = {p: [*_borders(start, end, size)] for p, (start, end) in partitions.items()}
    count = max(map(len, borders.values()), default=0)
    parts = []
    for index in range(count):
        here = {p: some[index] for p, some in borders.items() if index < len(some)}
        parts.append(Bounds({p: start for p, (start, _) in here.items()}, {p: end for p, (_, end) in here.items()}))
    return parts


def _borders(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    while start < end:
        next_start = min(end, (start // size + 1) * size)
        yield start, next_start
        start = next_start

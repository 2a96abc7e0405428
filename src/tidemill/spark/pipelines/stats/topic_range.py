"""The offsets that a run reads, and their division into steps."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.columnar import source_options
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.spark.pipelines.frame import source_range
from tidemill.spark.pipelines.frame.positions import parse_position

Offsets = Mapping[int, int]  # offsets by partition number


@dataclass(frozen=True, slots=True)
class TopicRange:
    """A range of offsets in each partition.  The ends are exclusive; a partition may have an empty range."""

    starts: Offsets
    ends: Offsets

    @property
    def offset_count(self) -> int:
        return sum(end - self.starts[partition] for partition, end in self.ends.items())

    def steps(self, offsets_max: int) -> "list[TopicRange]":
        """
        Divide every partition into the same number of parts, so that a step has at most about `offsets_max` offsets.
        """
        count = math.ceil(self.offset_count / offsets_max)
        return [TopicRange(self._part(index, count), self._part(index + 1, count)) for index in range(count)]

    def _part(self, index: int, count: int) -> Offsets:
        return {p: start + (self.ends[p] - start) * index // count for p, start in self.starts.items()}

    def to_json(self) -> dict[str, dict[str, int]]:
        return {
            "starts": {str(partition): offset for partition, offset in self.starts.items()},
            "ends": {str(partition): offset for partition, offset in self.ends.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Mapping[str, int]]) -> "TopicRange":
        starts, ends = ({int(p): offset for p, offset in value[key].items()} for key in ("starts", "ends"))
        return cls(starts, ends)


def resolve(kafka: Mapping[str, str], topic: str, start: str, end: str) -> TopicRange:
    """
    Look up the offsets of the range in the cluster.

    Raise ValueError if the topic does not contain the range, or ClientError if a request fails.
    """
    keys = {name.lower(): value for name, value in kafka.items()}
    reader = OffsetReader(source_options.for_batch({**keys, "subscribe": topic}))
    try:
        found = source_range.resolve(reader, parse_position(topic, "start", start), parse_position(topic, "end", end))
    finally:
        reader.close()
    return TopicRange(
        {partition.partition: offset for partition, offset in found.start.items()},
        {partition.partition: offset for partition, offset in found.end.items()},
    )

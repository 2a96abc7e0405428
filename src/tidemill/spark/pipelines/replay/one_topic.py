"""The cluster as a replay sees it: the source topic's range and timestamps, and the target topic's ends."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Self

from tidemill.columnar import source_options
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.columnar.range_reader import RangeReader
from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.replay.record_times import RecordTimesAhead

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = Mapping[TopicPartition, int]


class OneTopic:
    """A topic's offsets, and the timestamps of its records.  It holds connections until `close`."""

    def __init__(self, topic: str, kafka: Mapping[str, str]) -> None:
        lower = {name.lower(): value for name, value in kafka.items()}
        self.name = topic
        self._options = source_options.for_batch({**lower, "subscribe": topic})
        self.offsets = OffsetReader(self._options)

    def close(self) -> None:
        self.offsets.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ends(self) -> dict[TopicPartition, int]:
        """Return the end offset of every partition that the topic has now."""
        return self.offsets.latest(self.offsets.partitions())

    def topic_id(self) -> str | None:
        """Return the id of the topic as text; None if the broker has no topic ids."""
        self.offsets.partitions()
        found = self.offsets.topic_ids([self.name])[self.name]
        return None if found is None else found.hex()

    def times(self, partition: TopicPartition, offset: int) -> RecordTimesAhead:
        """Return the timestamps of a partition from `offset` on."""
        reader = RangeReader(self._options, ["offset", "timestamp"])

        def read(start: int, end: int) -> Iterator["pa.RecordBatch"]:
            return reader.record_batches(OffsetRange(partition.topic, partition.partition, start, end))

        return RecordTimesAhead(offset, read)

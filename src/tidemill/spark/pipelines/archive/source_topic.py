"""Reads from the cluster the source topic's id, its offsets, and an estimate of the size of its records."""

from collections.abc import Mapping

from tidemill.columnar import source_options
from tidemill.columnar.offset_reader import OffsetReader, Offsets
from tidemill.columnar.size_profile import SizeProfile
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import topic_id_text
from tidemill.spark.pipelines.archive.batch_entry import BatchEntry
from tidemill.spark.pipelines.archive.next_batch import PlannedBatch, TopicBounds


class SourceTopic:
    """A source topic.  The object holds connections to the cluster."""

    def __init__(self, kafka: Mapping[str, str], topic: str) -> None:
        """Raise ValueError if a setting in `kafka` is invalid."""
        self._topic = topic
        keys = {name.lower(): value for name, value in kafka.items()}
        self._reader = OffsetReader(source_options.for_batch({**keys, "subscribe": topic}))

    def close(self) -> None:
        self._reader.close()

    def bounds(self, last: BatchEntry | None = None) -> TopicBounds:
        """
        Return the current id and offsets of the topic.

        An end offset below that of batch `last` is requested again, because a new leader may return a stale one.  Raise
        UnknownTopic, or ClientError if a request fails.
        """
        partitions = self._reader.partitions()
        topic_id = self._reader.topic_ids([self._topic])[self._topic]
        # Request the start first: if retention raises it between the two requests, the older start is still not above
        # the end.
        earliest = self._reader.earliest(partitions)
        known: Offsets = {} if last is None else {TopicPartition(self._topic, p): end for p, end in last.ends.items()}
        return TopicBounds(
            topic=self._topic,
            topic_id=None if topic_id is None else topic_id_text(topic_id),
            earliest=earliest,
            latest=self._reader.latest(partitions, known=known),
        )

    def profiles(self, batch: PlannedBatch) -> dict[TopicPartition, SizeProfile]:
        """Return per partition how the bytes of `batch` are distributed over its offsets, estimated from samples."""
        return self._reader.size_profiles((one, batch.starts[one], batch.ends[one]) for one in batch.to_read)

"""Asks the cluster about the topic of an archive: its id, its offsets, and how large its records are."""

from collections.abc import Mapping

from tidemill.columnar import source_options
from tidemill.columnar.offset_reader import OffsetReader, Offsets
from tidemill.columnar.size_profile import SizeProfile
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import topic_id_text
from tidemill.spark.pipelines.archive.batch_entry import BatchEntry
from tidemill.spark.pipelines.archive.next_batch import PlannedBatch, TopicBounds


class SourceTopic:
    """A topic, over connections that this object holds."""

    def __init__(self, kafka: Mapping[str, str], topic: str) -> None:
        """Raise ValueError for a setting in `kafka`."""
        self._topic = topic
        keys = {name.lower(): value for name, value in kafka.items()}
        self._reader = OffsetReader(source_options.for_batch({**keys, "subscribe": topic}))

    def close(self) -> None:
        self._reader.close()

    def bounds(self, last: BatchEntry | None = None) -> TopicBounds:
        """
        Return the present id and offsets of the topic.

        An end below that of batch `last` is asked again, because a new leader may return one.  Raise UnknownTopic, and
        ClientError if the cluster cannot be asked.
        """
        partitions = self._reader.partitions()
        topic_id = self._reader.topic_ids([self._topic])[self._topic]
        # The start first: if retention moves it meanwhile, it is not above the end.
        earliest = self._reader.earliest(partitions)
        known: Offsets = {} if last is None else {TopicPartition(self._topic, p): end for p, end in last.ends.items()}
        return TopicBounds(
            topic=self._topic,
            topic_id=None if topic_id is None else topic_id_text(topic_id),
            earliest=earliest,
            latest=self._reader.latest(partitions, known=known),
        )

    def profiles(self, batch: PlannedBatch) -> dict[TopicPartition, SizeProfile]:
        """Return where the bytes of the records of `batch` lie, estimated from a few of its record batches."""
        return self._reader.size_profiles((one, batch.starts[one], batch.ends[one]) for one in batch.to_read)

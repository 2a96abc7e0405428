"""Reads the letters of a dead-letter topic, from the start of each partition to the end that it has at first."""

from collections.abc import Iterator

from tidemill.batches.batch import spans
from tidemill.batches.records import Record, read_records
from tidemill.cli.letter import Letter, letter_of
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError, OffsetOutOfRange
from tidemill.client.offset_lookup import EARLIEST, LATEST, look_up
from tidemill.client.raw_fetcher import RawFetcher
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId


class LetterReader:
    """Reads partition by partition, in the order of offsets, with bounded memory."""

    def __init__(self, cluster: ClusterMetadata, topic: str) -> None:
        """Determine the topic's id and the bounds of its partitions.  Raise ClientError."""
        self._cluster = cluster
        self._topic = topic
        cluster.refresh({topic})
        partitions = [TopicPartition(topic, number) for number in cluster.partitions(topic)]
        self.topic_id: TopicId | None = cluster.topic_id(topic)
        self._ends = look_up(cluster, dict.fromkeys(partitions, LATEST))
        self._starts = look_up(cluster, dict.fromkeys(partitions, EARLIEST))

    @property
    def offset_count(self) -> int:
        """The number of offsets to read.  There may be fewer letters, for example after a transaction."""
        return sum(max(end - self._starts[partition], 0) for partition, end in self._ends.items())

    def letters(self) -> Iterator[Letter]:
        """
        Yield the letters.  What retention removes meanwhile is left out.

        Raise ClientError, UnknownTopic also if the topic was deleted and created again.
        """
        fetcher = RawFetcher(self._cluster)
        for partition in sorted(self._ends):
            start, end = self._starts[partition], self._ends[partition]
            while start < end:
                try:
                    for run in fetcher.batches(partition, start, end, self.topic_id):
                        for record in _records(run, partition):
                            if start <= record.offset < end:
                                yield letter_of(record, partition.partition)
                    break
                except OffsetOutOfRange as error:
                    if error.log_start_offset <= error.fetch_offset:
                        raise  # the partition ends before an end offset that its leader has reported
                    start = error.log_start_offset


def _records(run: memoryview, partition: TopicPartition) -> Iterator[Record]:
    for span in spans(run):
        try:
            yield from read_records(run, span.position)
        except ValueError as error:
            at = f"{partition.topic}-{partition.partition}, offset {span.header.base_offset}"
            raise ClientError(f"the batch at {at} cannot be read: {error}") from error

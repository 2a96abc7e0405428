"""A topic's partitions, offsets and id, looked up by the driver of a pipeline."""

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Self

from tidemill.client import topic_limits
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.waiting_records import WaitingRecords
from tidemill.columnar import source_options
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import topic_id_text


class OneTopic:
    """Looks up the offsets of one topic.  The object holds connections until `close`, and cannot be pickled."""

    def __init__(self, topic: str, kafka: Mapping[str, str], *, has_headers: bool = False) -> None:
        """`kafka` contains options of `format("tidemill")`.  Raise ValueError for an invalid option."""
        lower = {name.lower(): value for name, value in kafka.items()}
        self.name = topic
        # The options for reading the topic in executors; unlike this object, they can be pickled.
        self.source: SourceOptions = source_options.for_batch(
            {**lower, "subscribe": topic, "includeheaders": str(has_headers).lower()}
        )
        self.offsets = OffsetReader(self.source)

    def close(self) -> None:
        self.offsets.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ends(self) -> dict[TopicPartition, int]:
        """
        Return the current end offset of every partition.

        Raise UnknownTopic, or another ClientError if a request fails.
        """
        return self.offsets.latest(self.offsets.partitions())

    def arrival_ends(self) -> dict[TopicPartition, int]:
        """
        Return the next arrival number of every partition of a timer topic.

        Raise the same errors as `ends`.
        """
        with closing(ClusterMetadata(self.source.connection)) as cluster:
            cluster.refresh([self.name])
            numbers = cluster.partitions(self.name)
            return WaitingRecords(cluster).arrival_ends([TopicPartition(self.name, number) for number in numbers])

    def partition_count(self) -> int:
        """Return the current number of partitions.  Raise the same errors as `ends`."""
        return max(number for _, number in self.offsets.partitions()) + 1

    def numbered_ends(self) -> dict[int, int]:
        """Return the end offsets by partition number.  Raise the same errors as `ends`."""
        return {number: offset for (_, number), offset in self.ends().items()}

    def topic_id(self) -> str | None:
        """
        Return the topic id as text; None if the broker does not support topic ids.

        Raise the same errors as `ends`.
        """
        self.offsets.partitions()
        found = self.offsets.topic_ids([self.name])[self.name]
        return None if found is None else topic_id_text(found)

    def configurations(self, keys: Collection[str]) -> dict[str, str]:
        """Return the values of configuration keys; keys that the broker does not report are missing."""
        with closing(ClusterMetadata(self.source.connection)) as cluster:
            return topic_limits.configurations(cluster, [self.name], keys).get(self.name, {})

"""A topic as the driver of a pipeline sees it: its partitions, offsets and id."""

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Self

from tidemill.client import topic_limits
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.columnar import source_options
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import topic_id_text


class OneTopic:
    """The offsets of one topic.  It holds connections until `close`, and is not pickled."""

    def __init__(self, topic: str, kafka: Mapping[str, str], *, has_headers: bool = False) -> None:
        """`kafka` has options as `format("tidemill")` has them.  Raise ValueError for an option."""
        lower = {name.lower(): value for name, value in kafka.items()}
        self.name = topic
        # What reads the topic with; it can be pickled.
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
        """Return the end offset of every partition that the topic has now.  Raise UnknownTopic and ClientError."""
        return self.offsets.latest(self.offsets.partitions())

    def partition_count(self) -> int:
        """Return how many partitions the topic has now.  Raise as `ends`."""
        return max(number for _, number in self.offsets.partitions()) + 1

    def numbered_ends(self) -> dict[int, int]:
        """Return the same as `ends`, by the numbers of the partitions."""
        return {number: offset for (_, number), offset in self.ends().items()}

    def topic_id(self) -> str | None:
        """Return the id of the topic as text; None if the broker has no topic ids.  Raise as `ends`."""
        self.offsets.partitions()
        found = self.offsets.topic_ids([self.name])[self.name]
        return None if found is None else topic_id_text(found)

    def configurations(self, keys: Collection[str]) -> dict[str, str]:
        """Return the values of configuration keys; those that the broker does not tell are missing."""
        with closing(ClusterMetadata(self.source.connection)) as cluster:
            return topic_limits.configurations(cluster, [self.name], keys).get(self.name, {})

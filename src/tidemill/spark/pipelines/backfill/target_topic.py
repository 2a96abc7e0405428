"""Asks the cluster about topics, on the driver: partitions, end offsets, and configurations."""

from collections.abc import Collection
from types import TracebackType
from typing import Self
from uuid import UUID

from tidemill.client import topic_limits
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.offset_lookup import LATEST, look_up
from tidemill.model.partition import TopicPartition


class TargetTopic:
    """A topic and its connections.  It is not thread-safe."""

    def __init__(self, connection: ConnectionSettings, topic: str) -> None:
        self._cluster = ClusterMetadata(connection)
        self._topic = topic

    def partition_count(self) -> int:
        """Return the number of partitions.  Raise UnknownTopic, and ClientError if no broker responds."""
        self._cluster.refresh([self._topic])
        return max(self._cluster.partitions(self._topic)) + 1

    def topic_id(self) -> str | None:
        """Return the topic's id, which a topic of the same name does not have; None if the broker has no topic ids."""
        self._cluster.refresh([self._topic])
        found = self._cluster.topic_id(self._topic)
        return None if found is None else str(UUID(bytes=bytes(found)))

    def end_offsets(self) -> dict[int, int]:
        """Return the end offset of each partition.  Raise UnknownTopic and ClientError."""
        self._cluster.refresh([self._topic])
        wanted = {TopicPartition(self._topic, number): LATEST for number in self._cluster.partitions(self._topic)}
        return {partition.partition: offset for partition, offset in sorted(look_up(self._cluster, wanted).items())}

    def configurations(self, keys: Collection[str]) -> dict[str, str]:
        """Return the values of configuration keys; those that the broker does not tell are missing."""
        self._cluster.refresh([self._topic])
        return topic_limits.configurations(self._cluster, [self._topic], keys).get(self._topic, {})

    def close(self) -> None:
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

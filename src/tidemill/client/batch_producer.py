"""Sends encoded record batches: idempotent, in order per partition, and retried across leader changes.

producer = BatchProducer(cluster, settings)
producer.send(partition, batch, record_count)
acknowledged = producer.flush()
"""

from typing import NamedTuple

from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError
from tidemill.client.producer_settings import ProducerSettings
from tidemill.model.partition import TopicPartition


class DeliveryFailed(ClientError):
    """A batch could not be delivered.  The message names the partition, the cause and, where there is one, the fix."""

    def __init__(self, partition: TopicPartition, detail: str) -> None:
        super().__init__(f"{partition.topic}-{partition.partition}: {detail}")
        self.partition = partition


class Acknowledged(NamedTuple):
    """The acknowledged records of one partition."""

    records: int
    bytes: int  # of their batches, compressed
    first_offset: int  # -1 if the broker did not return it
    end_offset: int  # the offset after the last record; other producers may have records in between


class BatchProducer:
    """
    Sends batches to the leaders of their partitions.  It is not thread-safe.

    After an error, every further call raises the same error: records of the failed write may or may not be stored.
    """

    def __init__(self, cluster: ClusterMetadata, settings: ProducerSettings) -> None:
        """`cluster` must know the topics of all batches."""
        raise NotImplementedError

    def send(self, partition: TopicPartition, batch: bytearray, record_count: int) -> None:
        """
        Queue a batch, and stamp it with producer id, epoch and sequence before it is sent.

        The caller must not use `batch` afterwards.  Wait while the buffer is full.  Raise DeliveryFailed, also for an
        earlier batch.
        """
        raise NotImplementedError

    def flush(self) -> dict[TopicPartition, Acknowledged]:
        """
        Wait until all batches are acknowledged.  Return what was acknowledged since the last `flush`.

        Raise DeliveryFailed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections.  Batches that are not acknowledged may be lost; call `flush` first."""
        raise NotImplementedError

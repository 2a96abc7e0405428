"""Counts the records that brokers have acknowledged to a producer, per partition."""

from typing import NamedTuple

from tidemill.client.partition_queue import PendingBatch
from tidemill.model.partition import TopicPartition


class Acknowledged(NamedTuple):
    """The acknowledged records of one partition."""

    records: int
    bytes: int  # compressed size of the record batches
    first_offset: int  # -1 if the broker did not return it
    end_offset: int  # the offset after the last record; records of other producers may be in between

    def plus(self, records: int, size: int, first_offset: int, end_offset: int) -> "Acknowledged":
        """Return the sum of this and other acknowledged records of the partition."""
        known = [offset for offset in (self.first_offset, first_offset) if offset >= 0]
        return Acknowledged(
            self.records + records,
            self.bytes + size,
            min(known, default=-1),
            max(self.end_offset, end_offset),
        )


NOTHING = Acknowledged(0, 0, -1, -1)


class Acknowledgements:
    """The counts of records acknowledged since the last `take`."""

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, Acknowledged] = {}

    def topics(self) -> list[str]:
        return [partition.topic for partition in self._by_partition]

    def add(self, pending: PendingBatch, base_offset: int) -> None:
        """Count a batch.  `base_offset` is -1 if the broker did not return the offset."""
        partition = pending.queue.partition
        end_offset = -1 if base_offset < 0 else base_offset + pending.record_count
        before = self._by_partition.get(partition, NOTHING)
        self._by_partition[partition] = before.plus(pending.record_count, pending.size, base_offset, end_offset)

    def take(self) -> dict[TopicPartition, Acknowledged]:
        """Return the counts since the last `take`, and reset them."""
        taken, self._by_partition = self._by_partition, {}
        return taken

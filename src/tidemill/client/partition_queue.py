"""The batches of one partition that a producer has not delivered yet, and their sequence numbers (KIP-98, KIP-360).

The broker accepts the batches of a producer only in the order of their sequence numbers, and uses these numbers to
recognize a batch that it has already stored.  A batch therefore keeps its number when it is sent again.  The first
batch is sent alone, because a broker that does not know the producer accepts any sequence number.  After a failure
nothing is sent until no batch of the partition is in flight; then the batches that were sent before are sent again in
order, one at a time.
"""

from collections import deque
from struct import Struct
from typing import Final, NamedTuple

from tidemill.batches.batch import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    add_sequence,
    stamp,
    stamp_crc,
)
from tidemill.client.failures import ClientError
from tidemill.model.partition import TopicPartition

_PRODUCER_FIELDS: Final = Struct(">qhi")  # producer id, producer epoch, base sequence
_PRODUCER_FIELDS_POSITION: Final = 43


class ProducerId(NamedTuple):
    """The identity of an idempotent producer in a partition."""

    producer_id: int
    epoch: int


NO_PRODUCER: Final = ProducerId(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class PendingBatch:
    """A batch that is waiting, in flight, or to be sent again."""

    __slots__ = ("attempts", "batch", "cause", "deadline", "queue", "record_count", "sequence")

    def __init__(self, queue: "PartitionQueue", batch: bytearray, record_count: int, deadline: float) -> None:
        stamp(batch, 0, NO_LEADER_EPOCH)  # Apache Kafka refuses batches whose base offset is not 0.
        self.queue = queue
        self.batch = batch
        self.record_count = record_count
        self.deadline = deadline  # when its delivery fails, on the producer's clock
        self.attempts = 0
        self.sequence = NO_SEQUENCE  # the first record's sequence number; set when the batch is first sent
        self.cause: ClientError | None = None  # the error of the last failed attempt

    @property
    def size(self) -> int:
        return len(self.batch)


class PartitionQueue:
    """The undelivered batches of a partition, oldest first.  The batches in flight are at the front."""

    __slots__ = (
        "batches",
        "broker_id",
        "failures",
        "in_flight",
        "is_known",
        "must_restart",
        "next_sequence",
        "partition",
        "producer",
        "ready_at",
    )

    def __init__(self, partition: TopicPartition, producer: ProducerId) -> None:
        self.partition = partition
        self.producer = producer
        self.batches: deque[PendingBatch] = deque()
        self.in_flight: set[PendingBatch] = set()
        self.broker_id = -1  # the broker to which the batches in flight were sent
        self.next_sequence = 0
        self.is_known = False  # whether the broker has stored a batch, and therefore refuses batches out of order
        self.must_restart = False  # the broker has lost the sequence, which must restart at 0 in a new epoch
        self.failures = 0  # failed attempts of the first batch since the last success; 0: send without waiting
        self.ready_at = 0.0  # when to make the next attempt, on the producer's clock; in the future after a failure

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"

    def next_batch(self) -> PendingBatch | None:
        """
        Return the batch to send next; None if there is none, or if it must wait for responses to batches in flight.
        """
        if self.in_flight and (self.failures or self.must_restart or not self.is_known):
            return None
        return self.batches[len(self.in_flight)] if len(self.in_flight) < len(self.batches) else None

    def is_first(self, pending: PendingBatch) -> bool:
        """Return whether all earlier batches are delivered."""
        return self.batches[0] is pending

    def start(self, pending: PendingBatch, broker_id: int) -> None:
        """
        Mark `pending`, which is `next_batch()`, as in flight.

        Assign its sequence number unless it already has one.
        """
        if pending.sequence == NO_SEQUENCE and self.producer != NO_PRODUCER:
            pending.sequence = self.next_sequence
            self.next_sequence = add_sequence(self.next_sequence, pending.record_count)
            self._stamp(pending)
        pending.attempts += 1
        self.in_flight.add(pending)
        self.broker_id = broker_id

    def acknowledge(self, pending: PendingBatch) -> None:
        """
        Remove a delivered batch.

        If the response to an earlier batch was lost, a later batch may be acknowledged first.
        """
        self.in_flight.discard(pending)
        self.batches.remove(pending)
        self.is_known = True
        if not self.in_flight:
            # Brokers remember only a producer's last batches, so no new batch is sent before all older batches are
            # delivered.
            self.failures = 1 if self.batches and self.batches[0].attempts else 0

    def fail(self, pending: PendingBatch, cause: ClientError) -> None:
        """Record that an attempt failed and must be repeated."""
        pending.cause = cause
        self.failures = self.failures + 1 if self.is_first(pending) else max(self.failures, 1)
        self.in_flight.discard(pending)

    def restart(self, producer: ProducerId) -> None:
        """Number all batches from 0, under a new producer id or epoch.  No batch may be in flight."""
        assert not self.in_flight, "the numbers of batches in flight cannot change"
        self.producer = producer
        self.is_known = self.must_restart = False
        self.next_sequence = 0
        for pending in self.batches:
            pending.sequence = NO_SEQUENCE

    def split(self, pending: PendingBatch, parts: list[tuple[bytearray, int]]) -> None:
        """
        Replace a batch that is not in flight with smaller batches of the same records, which divide its sequence
        numbers.
        """
        place = self.batches.index(pending)
        sequence = pending.sequence
        del self.batches[place]
        for index, (batch, record_count) in enumerate(parts):
            part = PendingBatch(self, batch, record_count, pending.deadline)
            part.cause = pending.cause
            if sequence != NO_SEQUENCE:
                part.sequence = sequence
                self._stamp(part)
                sequence = add_sequence(sequence, record_count)
            self.batches.insert(place + index, part)

    def _stamp(self, pending: PendingBatch) -> None:
        _PRODUCER_FIELDS.pack_into(pending.batch, _PRODUCER_FIELDS_POSITION, *self.producer, pending.sequence)
        stamp_crc(pending.batch)

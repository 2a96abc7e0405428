"""Keeps the pipelined batches of idempotent producers on one connection in order after a batch has been refused.

    batch 0 ─▶ refused during a transfer ─▶ the transfer fails ─▶ batch 1 ─▶ refused, too ─▶ batch 0 ─▶ batch 1

A client sends several batches to a partition without waiting for responses, and resends refused batches in order.  If a
partition has no state of a producer, it accepts a first batch with any sequence (KIP-360: the state may have expired),
so it would accept batch 1 before batch 0.  Therefore, the broker also refuses batch 1 until batch 0 is sent again.
From a known producer, the partition accepts only consecutive sequences anyway.
"""

from typing import Final, NamedTuple

from tidemill.batches.batch import HEADER_BYTES, NO_PRODUCER_ID, SEQUENCE_MAX, read_header
from tidemill.model import errors
from tidemill.model.topic import NAME_LENGTH_MAX
from tidemill.storage.partition.producer_states import ProducerStates

SENT_AGAIN: Final = frozenset({
    errors.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UNKNOWN_TOPIC_ID,
    errors.NOT_LEADER_OR_FOLLOWER,
    errors.LEADER_NOT_AVAILABLE,
    errors.NOT_ENOUGH_REPLICAS,
    errors.KAFKA_STORAGE_ERROR,
})  # fmt: skip
"""Errors after which every client resends the batch."""

EXPECTED_MS: Final = 10_000
"""How long later batches are refused: a client may drop the refused batch and continue with the same epoch."""

PARTITIONS_MAX: Final = 1_000
"""The maximum number of partitions stored per connection: clients may name partitions that do not exist."""

TopicPartition = tuple[str | bytes, int]  # topic, by name or by id, and partition


class _Refused(NamedTuple):
    producer_id: int
    producer_epoch: int
    base_sequence: int
    code: int
    until_ms: int


class Pipelines:
    """The refused batches of one connection.  `now_ms` is monotonic."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[TopicPartition, _Refused] = {}  # each partition's first refused batch; newest last

    def __bool__(self) -> bool:
        return bool(self._refused)

    def refuse(self, partition: TopicPartition, batch: memoryview, code: int, now_ms: int) -> None:
        """
        Remember a batch that was refused with a code in `SENT_AGAIN`, or whose outcome is unknown because a new leader
        may truncate it.
        """
        if len(batch) < HEADER_BYTES or len(partition[0]) > NAME_LENGTH_MAX:
            return
        header = read_header(batch)
        if header.producer_id == NO_PRODUCER_ID:
            return
        first = self._refused.get(partition)
        if first is None or not _is_behind(first, *header[9:12]) or now_ms >= first.until_ms:
            self._refused.pop(partition, None)
            if len(self._refused) >= PARTITIONS_MAX:
                del self._refused[next(iter(self._refused))]
            self._refused[partition] = _Refused(*header[9:12], code, now_ms + EXPECTED_MS)

    def refusal(self, partition: TopicPartition, batch: memoryview, known: ProducerStates, now_ms: int) -> int:
        """
        Return the error code of an earlier batch that was refused and must be sent again before `batch`; 0 if `batch`
        may be appended.
        """
        first = self._refused.get(partition)
        if first is None or len(batch) < HEADER_BYTES:
            return errors.NONE
        header = read_header(batch)
        is_awaited = first.producer_id not in known and now_ms < first.until_ms
        if is_awaited and _is_behind(first, *header[9:12]):
            return first.code
        del self._refused[partition]
        return errors.NONE


def _is_behind(first: _Refused, producer_id: int, producer_epoch: int, base_sequence: int) -> bool:
    """
    Return whether the batch is later than `first`, from the same producer and epoch.  After `SEQUENCE_MAX`, sequences
    continue with 0.
    """
    if (producer_id, producer_epoch) != (first.producer_id, first.producer_epoch):
        return False
    return 0 < (base_sequence - first.base_sequence) & SEQUENCE_MAX <= SEQUENCE_MAX // 2

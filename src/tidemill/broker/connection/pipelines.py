"""What one connection's idempotent producers have under way, after a batch was refused that will be sent again.

    batch 0 ─▶ refused: the leader hands over ─▶ … it leads on ─▶ batch 1 ─▶ refused alike ─▶ batch 0 ─▶ batch 1 ─▶ …

A client sends several batches of a partition without waiting, and sends again what was refused, in order.  Of a
producer that a partition does not know yet any sequence is taken (KIP-360: its state may have expired), so batch 1
would be taken as its first, and batch 0 behind it.  Once the producer is known, the sequence itself tells.
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
    errors.NOT_ENOUGH_REPLICAS,
    errors.KAFKA_STORAGE_ERROR,
})  # fmt: skip
"""Told of a batch, these make every client send it again."""

EXPECTED_MS: Final = 10_000
"""For so long the refused batch is waited for: a client may have given it up, and not say so by a new epoch."""

PARTITIONS_MAX: Final = 1_000
"""Clients may name what does not exist."""

TopicPartition = tuple[str | bytes, int]  # topic, by name or by id, and partition


class _Refused(NamedTuple):
    producer_id: int
    producer_epoch: int
    base_sequence: int
    code: int
    until_ms: int


class Pipelines:
    """`now_ms` is monotonic."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[
            TopicPartition, _Refused
        ] = {}  # the first of each pipeline; who was refused last stands last

    def __bool__(self) -> bool:
        return bool(self._refused)

    def refuse(self, place: TopicPartition, batch: memoryview, code: int, now_ms: int) -> None:
        """`batch` was refused with one of `SENT_AGAIN`, or its leader was deposed: it may be truncated."""
        if len(batch) < HEADER_BYTES or len(place[0]) > NAME_LENGTH_MAX:
            return
        header = read_header(batch)
        if header.producer_id == NO_PRODUCER_ID:
            return
        first = self._refused.get(place)
        if first is None or not _is_behind(first, *header[9:12]) or now_ms >= first.until_ms:
            self._refused.pop(place, None)
            if len(self._refused) >= PARTITIONS_MAX:
                del self._refused[next(iter(self._refused))]
            self._refused[place] = _Refused(*header[9:12], code, now_ms + EXPECTED_MS)

    def refusal(self, place: TopicPartition, batch: memoryview, known: ProducerStates, now_ms: int) -> int:
        """The error code for what comes behind a batch that was refused and has not come again; else 0."""
        first = self._refused.get(place)
        if first is None or len(batch) < HEADER_BYTES:
            return errors.NONE
        header = read_header(batch)
        is_awaited = first.producer_id not in known and now_ms < first.until_ms
        if is_awaited and _is_behind(first, *header[9:12]):
            return first.code
        del self._refused[place]
        return errors.NONE


def _is_behind(first: _Refused, producer_id: int, producer_epoch: int, base_sequence: int) -> bool:
    """The same producer's, in the same epoch, and later; sequences begin again behind `SEQUENCE_MAX`."""
    if (producer_id, producer_epoch) != (first.producer_id, first.producer_epoch):
        return False
    return 0 < (base_sequence - first.base_sequence) & SEQUENCE_MAX <= SEQUENCE_MAX // 2

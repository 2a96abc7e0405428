"""The idempotent producers of a partition: the newest batches of each, to distinguish a retry from a gap.  KIP-98,
KIP-360.

A window holds the uncommitted batches of a producer, and before them its five newest committed batches.  So after any
truncation the window is the state as of the last remaining entry, and no batch has to be read again.  Batches are
identified by the log index of their entry.  Producers expire by the append times of committed entries, never by a clock
or by an entry that may be truncated, so replicas with equal logs agree on which producers have expired, even if they
forget them at different times.
"""

from collections import deque
from collections.abc import Mapping
from heapq import nlargest
from typing import Final, NamedTuple

from tidemill.model import errors

WINDOW_BATCHES: Final = 5  # as in Kafka: an idempotent client has at most five requests in flight
PRODUCERS_KEPT: Final = 100  # kept per partition, even if expired; they take less than 100 KiB
NO_PRODUCER_ID: Final = -1
SEQUENCE_MODULUS: Final = 1 << 31


class ProducerBatch(NamedTuple):
    epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int
    end_offset: int
    log_index: int
    append_time: int


class Duplicate(NamedTuple):
    """The batch in the log that the checked batch repeats."""

    base_offset: int
    log_index: int  # the retry is answered when this entry has committed
    append_time: int


class ProducerStates:
    """The producers of one partition."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, deque[ProducerBatch]] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._producers

    def check(self, producer_id: int, epoch: int, first_sequence: int, record_count: int) -> int | Duplicate:
        """
        Check a batch against the producer's window.  Return 0 to append it, a Duplicate to answer it as a retry, or an
        error code to reject it.  A window is used for as long as it is remembered, regardless of its age.
        """
        window = self._producers.get(producer_id)
        if not window:
            return errors.NONE
        newest = window[-1]
        if epoch < newest.epoch:
            return errors.INVALID_PRODUCER_EPOCH
        if epoch > newest.epoch:
            return errors.NONE if first_sequence == 0 else errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        if first_sequence == (newest.last_sequence + 1) % SEQUENCE_MODULUS:
            return errors.NONE
        last_sequence = (first_sequence + record_count - 1) % SEQUENCE_MODULUS
        for batch in reversed(window):
            if batch.epoch != epoch:
                break
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return Duplicate(batch.base_offset, batch.log_index, batch.append_time)
        return errors.OUT_OF_ORDER_SEQUENCE_NUMBER

    def append(self, producer_id: int, batch: ProducerBatch, committed_index: int) -> None:
        """
        Add an appended batch, and drop batches that will not be among the five newest again, even after a truncation.
        """
        window = self._producers.get(producer_id)
        if window is None:
            window = self._producers[producer_id] = deque()
        window.append(batch)
        while len(window) > WINDOW_BATCHES and window[WINDOW_BATCHES].log_index <= committed_index:
            window.popleft()

    def truncate(self, log_index: int) -> None:
        """Remove the batches of entries from `log_index` on."""
        for producer_id in list(self._producers):
            window = self._producers[producer_id]
            while window and window[-1].log_index >= log_index:
                window.pop()
            if not window:
                del self._producers[producer_id]

    def silent(self, committed_index: int, before_ms: int) -> set[int]:
        """
        Return the producers whose newest batch is committed and was appended before `before_ms`, except the newest
        PRODUCERS_KEPT: after a clock has jumped by days, a producer may still retry a batch that it sent a second ago.
        """
        producers = self._producers
        old = [
            (window[-1].log_index, producer_id)
            for producer_id, window in producers.items()
            if window[-1].append_time < before_ms and window[-1].log_index <= committed_index
        ]
        if not old or len(producers) <= PRODUCERS_KEPT:
            return set()
        newest = nlargest(PRODUCERS_KEPT, [_newest_committed(it, committed_index) for it in producers.values()])
        kept_from = newest[-1] if newest else committed_index + 1
        return {producer_id for log_index, producer_id in old if log_index < kept_from}

    def expire(self, committed_index: int, before_ms: int) -> None:
        """Remove the expired producers, which are those that `silent` returns."""
        for producer_id in self.silent(committed_index, before_ms):
            del self._producers[producer_id]

    def saved(self, committed_index: int, last_index: int) -> dict[int, tuple[ProducerBatch, ...]]:
        """Return the windows as of `committed_index`, plus all later batches up to `last_index`."""
        state = {}
        for producer_id, window in self._producers.items():
            batches = [batch for batch in window if batch.log_index <= last_index]
            after = sum(batch.log_index > committed_index for batch in batches)
            if batches:
                state[producer_id] = tuple(batches[-(WINDOW_BATCHES + after) :])
        return state

    def load(self, state: Mapping[int, tuple[ProducerBatch, ...]]) -> None:
        self._producers = {producer_id: deque(batches) for producer_id, batches in state.items()}

    def newest(self) -> dict[int, ProducerBatch]:
        """Return the newest batch of each producer, for DescribeProducers."""
        return {producer_id: window[-1] for producer_id, window in self._producers.items()}


def _newest_committed(window: deque[ProducerBatch], committed_index: int) -> int:
    """Return the log index of the window's newest committed batch; 0 if none is committed."""
    last = window[-1].log_index
    if last <= committed_index:
        return last
    return next((batch.log_index for batch in reversed(window) if batch.log_index <= committed_index), 0)

"""What a partition knows of its idempotent producers: the newest batches of each, to tell a retry from a gap.  KIP-98,
KIP-360.

A window holds the batches that are not committed yet, and behind them the five newest committed ones: so whatever is
truncated, what is left is the state as of the last entry that is left, and nothing has to be read again.  Batches are
told apart by the log index of their entry.  Producers expire by the append times of what is committed, never by a
clock, nor by an entry that may be truncated: equal logs agree on who is silent, whenever each forgets him.
"""

from collections import deque
from heapq import nlargest
from typing import Final, NamedTuple

from tidemill.model import errors

WINDOW_BATCHES: Final = 5  # Kafka's: an idempotent client has at most five requests in flight
PRODUCERS_KEPT: Final = 100  # of a partition, whatever a clock says: less than 100 KiB
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
    """A retry of a batch that is in the log already."""

    base_offset: int
    log_index: int  # its answer waits until this has committed
    append_time: int


class ProducerStates:
    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, deque[ProducerBatch]] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._producers

    def check(self, producer_id: int, epoch: int, first_sequence: int, record_count: int) -> int | Duplicate:
        """
        What to do with a batch: append it (0), answer it as a Duplicate, or refuse it with an error code.  What is
        remembered counts, however old a clock says that it is.
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
        """The batch is in the log; what lies at or below `committed_index` can no longer be truncated."""
        window = self._producers.get(producer_id)
        if window is None:
            window = self._producers[producer_id] = deque()
        window.append(batch)
        while len(window) > WINDOW_BATCHES and window[WINDOW_BATCHES].log_index <= committed_index:
            window.popleft()

    def truncate(self, log_index: int) -> None:
        """Entries from `log_index` on are gone."""
        for producer_id in list(self._producers):
            window = self._producers[producer_id]
            while window and window[-1].log_index >= log_index:
                window.pop()
            if not window:
                del self._producers[producer_id]

    def silent(self, committed_index: int, before_ms: int) -> set[int]:
        """
        Producers that have written nothing since `before_ms` of append time, as far as is committed; but not the newest
        `PRODUCERS_KEPT`: when a clock jumps by days, somebody may be about to send again what he sent a second ago.
        Who is silent stays so until he writes.
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
        """Forget who is silent."""
        for producer_id in self.silent(committed_index, before_ms):
            del self._producers[producer_id]

    def saved(self, committed_index: int, last_index: int) -> dict[int, tuple[ProducerBatch, ...]]:
        """What a checkpoint keeps: the state as of a committed entry, and every batch after it up to the last."""
        state = {}
        for producer_id, window in self._producers.items():
            batches = [batch for batch in window if batch.log_index <= last_index]
            after = sum(batch.log_index > committed_index for batch in batches)
            if batches:
                state[producer_id] = tuple(batches[-(WINDOW_BATCHES + after) :])
        return state

    def load(self, state: dict[int, tuple[ProducerBatch, ...]]) -> None:
        self._producers = {producer_id: deque(batches) for producer_id, batches in state.items()}

    def newest(self) -> dict[int, ProducerBatch]:
        """The newest batch of each producer (what DescribeProducers shows)."""
        return {producer_id: window[-1] for producer_id, window in self._producers.items()}


def _newest_committed(window: deque[ProducerBatch], committed_index: int) -> int:
    """Its log index; 0: nothing is committed."""
    last = window[-1].log_index
    if last <= committed_index:
        return last
    return next((batch.log_index for batch in reversed(window) if batch.log_index <= committed_index), 0)

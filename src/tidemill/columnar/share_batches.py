"""The micro-batches of one run of a query with mode=share.

    next       records are acquired  ─▶  a batch, whose identity is an offset of the stream
    works      the batch's records, as the work of Spark's tasks; the same whenever Spark asks
    complete   the batch is in Spark's commit log  ─▶  what its members still hold is acknowledged

Spark may read a batch more than once (retries, speculative tasks, several actions in foreachBatch) and does not say
which read counted.  The records are therefore acquired here, once, before the batch is planned.  Had each task acquired
its own, a task that is repeated after a leader lost its locks would acquire others, and the commit would acknowledge
records that the sink never got.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from tidemill.columnar import share_batch
from tidemill.columnar.lock_keeper import LockKeeper, Locks
from tidemill.columnar.share_batch import Acquired, Holder, JsonBatch, Progress, ShareBatch, member_name
from tidemill.columnar.share_options import ShareOptions
from tidemill.columnar.share_work import AcquiredRange, Piece, ShareWork, works
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId

_LOG = logging.getLogger(__name__)

_PAUSE_S: Final = 0.1  # between two looks at a group without available records
_WAIT_SECONDS_MAX: Final = 5.0  # between two looks at records that a leader withholds: it may be replaced meanwhile
_METADATA_SECONDS: Final = 5.0  # how long a list of partitions is used
_RECORDS_MAX: Final = 100_000  # per acquisition; the group's limit on locks is lower
_ACQUISITIONS_MAX: Final = 16  # per partition and batch: each finds the records of a stretch of the log
_SUSPECT_COUNT: Final = 3  # the first delivery count at which the broker may deliver a record with few others


class AcquiringLocks(Locks, Protocol):
    """The requests about a group's records.  The methods raise ClientError."""

    def open(self, partitions: Iterable[TopicPartition]) -> None: ...
    def progress(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Progress]: ...
    def acquire(self, holder: Holder, records_max: int) -> Acquired: ...
    def held(self, holder: Holder) -> Acquired:
        """Return what the holder still has, with renewed locks."""
        ...


class Partitions(Protocol):
    """The subscribed partitions."""

    def partitions(self, *, is_missing_allowed: bool = False) -> list[TopicPartition]: ...
    def topic_ids(self, topics: Iterable[str]) -> dict[str, TopicId | None]: ...
    def close(self) -> None: ...


class ShareBatches:
    """Plans batches, one after the other: a batch is planned when the one before is complete."""

    def __init__(
        self,
        options: ShareOptions,
        run: str,
        *,
        open_locks: Callable[[], AcquiringLocks],
        open_partitions: Callable[[], Partitions],
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`run` identifies this run of the query; no other run may have the same."""
        self._options = options
        self._run = run
        self._locks = open_locks()
        self._keeper = LockKeeper(open_locks)
        self._subscription = open_partitions()
        self._partitions = self._subscription.partitions()
        self._monotonic = monotonic
        self._sleep = sleep
        self._listed_at = monotonic()
        self._empty_until = 0.0  # no look at the group before this time
        self._withheld_ms = 0  # how long a leader withholds available records, as of the last look; 0: none does
        self._serial = 0
        self._number = 0
        self._planned: ShareBatch | None = None  # not known to be complete
        self._completed: ShareBatch | None = None  # the last one
        self._works: dict[ShareBatch, list[ShareWork]] = {}  # of the planned batch
        self._isolated: deque[Piece] = deque()  # acquired, each for a batch of its own
        self._is_careful = False  # whether records that were delivered often get a batch of their own
        self._ends: dict[TopicPartition, int] | None = None  # the end of this run in each partition; None: it has none

    def open(self) -> None:
        """
        Open the group, which thereby starts in each partition.  Call this first.  Raise ClientError if it cannot be
        used.
        """
        self._locks.open(self._partitions)

    def end_with_available(self) -> None:
        """End the run when the records that are available now are acquired."""
        self._ends = {partition: one.end for partition, one in self._locks.progress(self._partitions).items()}

    def next(self, start: JsonBatch, records_max: int | None) -> JsonBatch:
        """
        Complete the batch that ends at `start`, and return the end of the next one; `start` if there is none.

        A run that ends with the available records waits for those that a leader withholds, because Spark ends it when
        there is no next batch.
        """
        self.complete(start)
        if self._planned is None:
            records_max = _RECORDS_MAX if records_max is None else records_max
            pieces = self._isolated_piece() or self._acquired(records_max)
            while not pieces and self._ends is not None and self._withheld_ms:
                _LOG.info("a leader withholds available records for %d ms", self._withheld_ms)
                self._sleep(min(max(self._withheld_ms / 1_000, _PAUSE_S), _WAIT_SECONDS_MAX))
                pieces = self._acquired(records_max)
            if not pieces:
                return start
            self._plan(pieces)
        assert self._planned is not None, "it was just planned"
        return share_batch.to_json(self._planned, self._options.group)

    def works(self, end: JsonBatch) -> list[ShareWork]:
        """Return the work of the batch that ends at `end`."""
        batch = share_batch.from_json(end, self._options.group)
        if batch is None:
            return []
        if batch != self._planned:
            self._adopt(batch)
        return self._works[batch]

    def complete(self, end: JsonBatch) -> None:
        """Acknowledge the batch that ends at `end`, which is complete.  This may be repeated."""
        batch = share_batch.from_json(end, self._options.group)
        if batch is None or batch == self._completed or (batch.run == self._run and batch != self._planned):
            return
        self._completed = batch
        self._keeper.complete(batch.holders(), self._locks)
        if batch == self._planned:
            self._planned = None
            self._works.clear()

    def close(self) -> None:
        """Release what is not complete."""
        self._keeper.close()
        self._locks.close()
        self._subscription.close()

    def _plan(self, pieces: Sequence[Piece]) -> None:
        serials: dict[TopicPartition, tuple[int, ...]] = {}
        for piece in pieces:
            serials[piece.partition] = (*serials.get(piece.partition, ()), piece.serial)
        self._planned = ShareBatch(self._run, self._number, tuple(sorted(serials.items())))
        self._works = {self._planned: self._work_of(pieces)}
        self._number += 1

    def _work_of(self, pieces: Sequence[Piece]) -> list[ShareWork]:
        source = self._options.source
        return works(
            pieces,
            self._options.group,
            self._subscription.topic_ids({piece.partition.topic for piece in pieces}),
            partitions_min=source.partitions_min,
            records_per_partition_max=source.records_per_partition_max,
        )

    def _adopt(self, batch: ShareBatch) -> None:
        """
        Take over a batch of an earlier run, which has planned it and did not complete it.

        It gets only what its members still hold.  The sink may have committed the batch already, and then ignores it:
        so a record must not become part of it now.  The other records are delivered in later batches.  A request that
        fails is an error: what a member holds is acknowledged with the batch, so all of it must be delivered.
        """
        self._is_careful = True
        pieces = []
        for serial, holder in zip(
            (serial for _, serials in batch.serials for serial in serials), batch.holders(), strict=True
        ):
            found = self._locks.held(holder)
            if found.ranges:
                self._keeper.hold(holder)
                self._keeper.keep(found.lock_ms)
                pieces.append(_piece(holder, serial, found))
        self._planned = batch
        self._works = {batch: self._work_of(pieces)}

    # Acquisition.

    def _isolated_piece(self) -> list[Piece]:
        return [self._isolated.popleft()] if self._isolated else []

    def _acquired(self, records_max: int) -> list[Piece]:
        """Acquire at most about `records_max` records."""
        now = self._monotonic()
        if now < self._empty_until:
            return []
        ready = self._ready(now)
        self._withheld_ms = 0
        pieces: list[Piece] = []
        for left, (partition, available) in zip(range(len(ready), 0, -1), ready, strict=True):
            share = min(available, max(records_max // left, 1))
            if records_max <= 0:
                break
            for piece in self._acquired_from(partition, share):
                pieces.append(piece)
                records_max -= sum(one.size for one in piece.ranges)
        if not pieces and self._isolated:
            return self._isolated_piece()
        if not pieces:
            self._empty_until = self._monotonic() + _PAUSE_S
            self._is_careful = self._is_careful and self._withheld_ms > 0
        return pieces

    def _ready(self, now: float) -> list[tuple[TopicPartition, int]]:
        """Return the partitions with available records and their number, in the order in which they are asked."""
        if now >= self._listed_at + _METADATA_SECONDS:
            self._partitions = self._subscription.partitions(is_missing_allowed=True)
            self._listed_at = now
        found = self._locks.progress(self._wanted(self._partitions))
        ready = [(it, one.available if one.is_open else _RECORDS_MAX) for it, one in found.items()]
        ready = [(it, available) for it, available in ready if available > 0]
        # Each batch begins with another partition, for the case that records_max is less than their number.
        begin = self._number % len(ready) if ready else 0
        return sorted([*ready[begin:], *ready[:begin]], key=lambda one: one[1])

    def _wanted(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [it for it in partitions if self._ends is None or it in self._ends]

    def _acquired_from(self, partition: TopicPartition, wanted: int) -> list[Piece]:
        """Acquire records of a partition, each time for a new member, until there are `wanted`, or no more."""
        pieces: list[Piece] = []
        for _ in range(_ACQUISITIONS_MAX):
            self._serial += 1
            holder = Holder(partition, member_name(self._run, self._serial))
            self._keeper.hold(holder)  # before the request, so that its records are released even if it is interrupted
            found = self._locks.acquire(holder, wanted)
            if not found.ranges:
                self._keeper.forget(holder)
                if found.withheld_ms:
                    self._withheld_ms = min(self._withheld_ms or found.withheld_ms, found.withheld_ms)
                break
            self._keeper.keep(found.lock_ms)
            piece = _piece(holder, self._serial, found)
            self._end_in(piece)
            if self._is_careful and any(one.delivery_count >= _SUSPECT_COUNT for one in piece.ranges):
                self._isolated.append(piece)
            else:
                pieces.append(piece)
            wanted -= sum(one.size for one in piece.ranges)
            if wanted <= 0:
                break
        return pieces

    def _end_in(self, piece: Piece) -> None:
        """
        With an end of this run: a partition has come to its end when its first available record is behind the end.
        """
        if self._ends is not None and piece.ranges[0].first >= self._ends.get(piece.partition, 0):
            self._ends.pop(piece.partition, None)


def _piece(holder: Holder, serial: int, found: Acquired) -> Piece:
    ranges = tuple(AcquiredRange(first, end, count, holder.member) for first, end, count in found.ranges)
    return Piece(holder.partition, serial, ranges)

"""Moves records that wait long out of old segments, so that a few of them do not keep all bytes of a log.

    the logs hold more than twice what waits ─▶ the oldest segment with the smaller share of records that wait
        ─▶ those that recur or are due later than soon are appended to the kept log
        ─▶ the segment is removed when the others are over (`timer_host`), or read again if some were put off

A log of arrivals would otherwise grow with what has long been released.  One batch is in flight at a time.
"""

from collections.abc import Callable
from typing import Final

from tidemill.batches.batch import HEADER_BYTES, read_header
from tidemill.broker.machine import Machine
from tidemill.broker.timers.positioned_batches import positioned_batches
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.shard.append import append_own
from tidemill.shard.arrivals import waiting_bytes
from tidemill.shard.partition import Partition
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.timer.arrival_records import arrival_of_kept, deliver_at, records_of
from tidemill.timer.release_batch import ADDED_BYTES_MAX, Waiting, kept_batch
from tidemill.timer.timer_headers import SCHEDULE
from tidemill.timer.timer_partition import TimerPartition
from tidemill.timer.waiting_set import WaitingView

SPARE_BYTES: Final = 64 << 20  # beyond twice the bytes that wait, before records are moved
BATCH_BYTES_MAX: Final = 1 << 20
SCANNED_MAX: Final = 20_000  # records that a job looks at, in a few tens of ms: it keeps the interpreter from others
TIMESTAMP_DELTA_MAX: Final = (1 << 63) - 1  # that a batch can say, between two records
SHARE_MAX: Final = 0.5  # of the records of a log that wait, for it to be drained
SOON_MS: Final = 60_000  # what is due within this time leaves by itself, unless it recurs or is put off meanwhile


class Draining:
    def __init__(
        self,
        partition: Partition,
        timers: TimerPartition,
        logs: WaitingLogs,
        machine: Machine,
        *,
        failed: Callable[[Exception], None],
        moved: Callable[[int], None],
    ) -> None:
        """`failed` takes the error of a read of records, and `moved` how many bytes were committed to the kept log."""
        self._partition = partition
        self._timers = timers
        self._logs = logs
        self._machine = machine
        self._failed = failed
        self._moved = moved
        self._is_busy = False
        self._next: dict[PartitionLog, int] = {}  # the offset up to which the records of a log were moved
        self._read_at: dict[PartitionLog, int] = {}  # monotonic ms at which a segment was last read to its end
        self._is_over = False

    def stop(self) -> None:
        """Move nothing more: this broker no longer leads the partition."""
        self._is_over = True

    def tick(self) -> None:
        """Move a batch of records if the logs have become too large.  Called a few times a second, while it leads."""
        held = self._logs.arrivals.size_bytes + self._logs.kept.size_bytes
        if self._is_busy or held <= 2 * waiting_bytes(self._partition) + SPARE_BYTES:
            return
        limit = self._partition.shard.release_limit
        logs = [log for log in (self._logs.arrivals, self._logs.kept) if self._may_shrink(log)]
        if limit is None or not logs:
            return
        log = min(logs, key=self._waiting_share)
        now_ms = self._machine.clock.monotonic_ms()
        first, end = max(self._next.get(log, 0), log.log_start), log.segments[1].base_offset
        if first >= end:
            if now_ms - self._read_at.get(log, now_ms) < SOON_MS:
                return  # the rest of the segment is due soon
            first = log.log_start  # some of the rest was put off
            self._read_at[log] = now_ms
            if first >= end:
                return  # nothing is left of it, and it is about to be removed
        self._is_busy = True
        view, later_than = self._timers.waiting.view(), limit + SOON_MS
        is_kept, bytes_max = log is self._logs.kept, min(BATCH_BYTES_MAX, self._partition.shard.batch_bytes_max)

        def read() -> tuple[list[tuple[int, Waiting]], int] | Exception:
            try:
                return _long_waiting(log, first, end, view, later_than, is_kept=is_kept, bytes_max=bytes_max)
            except (OSError, LookupError) as error:
                return error

        def done(found: tuple[list[tuple[int, Waiting]], int] | Exception) -> None:
            self._is_busy = False
            if self._is_over or not self._partition.shard.accepts_writes:
                return
            if isinstance(found, Exception):
                self._failed(found)
                return
            records, self._next[log] = found
            if self._next[log] >= end:
                self._read_at[log] = now_ms
            timers = self._timers
            waiting = [
                it
                for offset, it in records
                # A record that was moved before has its newest copy elsewhere: do not move it from here.
                if timers.waiting.waits(it.arrival) and timers.kept_offset(it.arrival) == (offset if is_kept else None)
            ]
            if waiting:  # all timestamps are near that of the first record, which may not wait any more
                self._append(waiting, base_timestamp=records[0][1].timestamp)

        self._machine.read_jobs.submit(read, done, self._machine.failed)

    def _append(self, records: list[Waiting], base_timestamp: int) -> None:
        kept, wall_ms = self._partition.kept, self._machine.clock.wall_ms()
        assert kept is not None, "not a timer partition"

        batch = kept_batch(records, base_timestamp)
        size = len(batch)

        def committed(is_committed: bool) -> None:
            self._is_busy = False
            if is_committed:
                self._moved(size)

        log_index = append_own(kept, batch, wall_ms)
        self._is_busy = True
        self._partition.shard.when_committed(log_index, committed)

    def _may_shrink(self, log: PartitionLog) -> bool:
        """
        Return whether less than half of the records of a log wait, apart from its newest segment.  Otherwise it would
        be copied for ever, while it is the other log that is large.
        """
        if len(log.segments) < 2:
            return False
        waiting, arrivals = self._timers.waiting, self._logs.arrivals
        if log is arrivals:
            first, end = log.segments[0].base_offset, log.segments[-1].base_offset
            count = waiting.count_between(first, end)
        else:
            first, end = log.segments[0].base_offset, log.end_offset
            count = waiting.count_between(0, arrivals.log_start)  # the kept log holds all of these
        return count < (end - first) * SHARE_MAX

    def _waiting_share(self, log: PartitionLog) -> float:
        """Return which share of the records of the oldest segment of a log wait."""
        first, end = log.segments[0].base_offset, log.segments[1].base_offset
        timers = self._timers
        if log is self._logs.arrivals:
            count = timers.waiting.count_between(first, end)
        else:
            count = timers.kept.count_waiting(end, timers.waiting.waits)
        return count / max(end - first, 1)


def _long_waiting(
    log: PartitionLog, first: int, end: int, view: WaitingView, later_than: int, *, is_kept: bool, bytes_max: int
) -> tuple[list[tuple[int, Waiting]], int]:
    """
    Return records from `first` on that recur or are due later, with their offsets, as many as a batch of at most
    `bytes_max` bytes has, but those of the next SCANNED_MAX records only, and the offset at which to go on.  Waits for
    the disk.
    """
    found: list[tuple[int, Waiting]] = []
    size, scanned_end = HEADER_BYTES, first + SCANNED_MAX
    for _, batch in positioned_batches(log, first, end):
        header = read_header(batch)
        for offset, (record, (start, stop)) in enumerate(records_of(batch, header), header.base_offset):
            if offset < first:
                continue
            if offset >= scanned_end:
                return found, offset
            arrival = arrival_of_kept(record) if is_kept else offset
            due = view.due_ms(arrival, deliver_at(record, header.max_timestamp))
            is_long = due > later_than or any(name == SCHEDULE for name, _ in record.headers)
            if offset < end and view.waits(arrival) and is_long:
                size += stop - start + ADDED_BYTES_MAX
                is_near = not found or abs(record.timestamp - found[0][1].timestamp) <= TIMESTAMP_DELTA_MAX
                if not is_near or (found and size > bytes_max):
                    return found, offset
                found.append((offset, Waiting(arrival, due, record.timestamp, bytes(batch[start:stop]))))
    return found, end

"""LedTimers: what the leader of a timer partition does: it makes records visible to consumers when they are due.

    due rows ─▶ records read, from memory or from the disk ─▶ one batch of the partition ─▶ committed: consumed

One entry of the log makes records visible and consumes their arrivals, so that a leader that dies leaves both or
neither.  Up to four batches are in flight.  A record that an uncommitted cancel, replacement or new time names is set
aside until that is decided.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

from tidemill.broker.machine import Machine
from tidemill.broker.repeated_events import RepeatedEvents
from tidemill.broker.timers.draining import Draining
from tidemill.broker.timers.index_files import IndexFiles
from tidemill.broker.timers.read_ahead import ReadAhead, ReadAheadRoom
from tidemill.broker.timers.recurrences import Recurrences, schedules_of
from tidemill.broker.timers.waiting_reader import read_waiting
from tidemill.broker.timers.waiting_scan import NamedArrival, WaitingScan
from tidemill.raft.entry import COMMAND, Entry
from tidemill.shard.append import append_own
from tidemill.shard.arrivals import timers_of
from tidemill.shard.partition import Partition
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.telemetry.timer_counters import TimerCounters
from tidemill.timer.due_row import DueRow, pack_rows, unpack_rows
from tidemill.timer.due_time import DUE_MS_MAX
from tidemill.timer.release_batch import Waiting, fitting, released_batch
from tidemill.timer.schedule import BadSchedule, Schedule
from tidemill.timer.timer_command import Cancel, CancelIds, Decision, encode_command
from tidemill.timer.timer_headers import hash_of
from tidemill.timer.waiting_set import Outcome

RECORDS_MAX: Final = 10_000  # of one batch
BYTES_MAX: Final = 1 << 20  # of one batch
IN_FLIGHT_MAX: Final = 4
IN_FLIGHT_BYTES_MAX: Final = 8 << 20
RETRY_MS: Final = 1_000  # after a failed read, or a record that the journal does not take
LOGGED_TRIES: Final = 3_600  # after a record was tried so often, it is logged again after as many tries

T = TypeVar("T")


class LedTimers:
    def __init__(
        self,
        partition: Partition,
        files: IndexFiles,
        machine: Machine,
        counters: TimerCounters,
        room: ReadAheadRoom,
        *,
        may_arrive: Callable[[], bool],
        may_write: Callable[[], bool],
        ready: Callable[["LedTimers"], None],
        read_failed: Callable[[Partition, Exception], int],
    ) -> None:
        """
        `may_arrive` and `may_write`: whether the disk has room for more records that wait, or at least for released
        ones.  `ready` is called when more may be released.  `read_failed` takes the error of a read of records.
        """
        self.partition = partition
        self.timers = timers_of(partition)
        self._logs = files.logs
        self._files = files
        self._machine = machine
        self._counters = counters
        self._may_arrive = may_arrive
        self._may_write = may_write
        self._ready = ready
        self._read_failed = read_failed
        self._aside: list[DueRow] = []  # taken, but named by an uncommitted change
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._take_max = RECORDS_MAX  # fewer while records whose sizes their rows do not say turn out to be large
        self._is_reading = False  # of records
        self._is_refilling = False  # the index
        self._ahead = ReadAhead(self.timers.index, files.logs, machine, room)
        self._failed_at: int | None = None  # monotonic ms of the last read that failed, or release that was refused
        self._refused = -1, 0  # the arrival that the journal has refused last, and how often it has
        self._bad_schedules = RepeatedEvents(machine.clock)
        self._is_over = False
        self.released_at = 0  # monotonic ms of the last release
        self._outcomes: dict[int, Outcome] = {}  # of decisions that have just been applied, by log index
        self._awaited: set[int] = set()
        self._recurrences = Recurrences(
            partition.number,
            self.timers,
            files.logs,
            machine,
            decide=self.decide,
            failed=self._read_problem,
            has_more=lambda: ready(self),
        )
        self._draining = Draining(
            partition, self.timers, files.logs, machine, failed=self._read_problem, moved=self._count_moved
        )
        self._replaced = self.timers.replaced
        self.timers.decided = self._decided
        self.timers.index.lead()

    def stop(self) -> None:
        """Forget what was taken: this broker no longer leads the partition."""
        self._is_over = True
        self._ahead.stop()
        self._draining.stop()
        self._recurrences.stop()
        self.timers.decided = None
        self.timers.index.follow()

    @property
    def next_due(self) -> int | None:
        """
        When to call `release` next, in ms since the epoch; None if nothing waits, or while nothing can be released: a
        callback or a tick ends that.
        """
        is_full = self._in_flight >= IN_FLIGHT_MAX or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX
        is_busy = self._is_reading or self._is_refilling or is_full
        due = self.timers.index.next_due() if self._is_able and not is_busy else None
        return None if due is None or due > DUE_MS_MAX else due

    @property
    def _is_able(self) -> bool:
        """Whether anything can be written for this partition now."""
        is_able = self.timers.is_restored and not self._is_over and self._failed_at is None
        return is_able and self.partition.shard.accepts_writes and self._may_write()

    @property
    def _append_time(self) -> int:
        """
        The append time of releases and decisions: that of the release clock, without the clock of this broker.

        Schedules go on behind the append time of a release.  If it were ahead, they would leave occurrences out.
        """
        return self.partition.shard.append_time(0)

    def tick(self, now_ms: int) -> None:
        """Try again to read records that could not be read.  `now_ms` is monotonic time."""
        if self._failed_at is not None and now_ms - self._failed_at >= RETRY_MS:
            self._failed_at = None
        if self._is_able:
            self._read_ahead()
            if self._may_arrive():
                self._draining.tick()

    def changed(self) -> None:
        """Take note that the log has changed what waits."""
        self._counters.records_replaced += self.timers.replaced - self._replaced
        self._replaced = self.timers.replaced
        aside, self._aside = self._aside, []
        if aside:
            self.timers.index.put_back(pack_rows(aside))

    @property
    def needs_occurrences(self) -> bool:
        """Whether it is to be computed when released records with schedules are due next."""
        return self._recurrences.is_needed

    def skips(self, arrival: int) -> bool:
        """Return whether an arrival waits for an occurrence that was missed, and is not released."""
        return self._recurrences.skips(arrival)

    def compute_occurrences(self) -> None:
        """Begin to compute when released records with schedules are due next."""
        if self._recurrences.is_needed and self._is_able:
            self._recurrences.compute(self._append_time)

    @property
    def is_stopped(self) -> bool:
        """Whether this broker has lost the leadership that it had when this was made."""
        return self._is_over

    def scan(
        self, timer_ids: Collection[bytes] = (), arrivals: Collection[int] | None = None, *, has_values: bool = False
    ) -> WaitingScan:
        """
        Return what waits now, to be read on another thread; or only what waits with one of these ids, or of these
        arrivals.
        """
        timers, kept, topic_id = self.timers, self.timers.kept, self.partition.log.topic_id
        if timer_ids:
            named = (timers.waiting.arrival_of(hash_of(it, topic_id)) for it in timer_ids)
            arrivals = [it for it in named if it is not None]
        only = None
        if arrivals is not None:
            only = [NamedArrival(it, timers.kept_offset(it)) for it in arrivals if timers.waiting.waits(it)]
        return WaitingScan(
            self._logs,
            timers.waiting.view(),
            self._logs.arrivals.log_start,
            kept.start,
            kept.end,
            only,
            has_values=has_values,
        )

    def decide(self, decision: Decision, then: Callable[[Outcome | None], None]) -> None:
        """Propose a decision.  `then` takes what became of the records, or None if leadership was lost before."""
        shard = self.partition.shard
        if self._is_over or not shard.accepts_writes:
            then(None)
            return
        index = shard.propose(
            Entry(COMMAND, encode_command([decision]), self.partition.number, append_time=self._append_time)
        )
        self._awaited.add(index)

        def committed(is_committed: bool) -> None:
            self._awaited.discard(index)
            outcome = self._outcomes.pop(index, None)
            if outcome is not None and isinstance(decision, Cancel | CancelIds):
                self._counters.records_cancelled += outcome.changed
            then(outcome if is_committed else None)

        shard.when_committed(index, committed)

    def _decided(self, index: int, outcome: Outcome) -> None:
        if index in self._awaited:
            self._outcomes[index] = outcome

    def release(self, now_ms: int, records_max: int) -> int:
        """Release what is due, and return the number of records.  `now_ms` is monotonic time."""
        index, left = self.timers.index, records_max
        while left > 0 and self.next_due is not None:
            self._refill()
            limit = self.partition.shard.release_limit
            rows = [] if limit is None else [*unpack_rows(index.take(limit, min(left, self._take_max), BYTES_MAX))]
            if not rows:
                break
            left -= len(rows)
            self.released_at = now_ms
            self._read(self._free(rows) if self.timers.holds_any else rows)  # those taken just now count
        self._read_ahead()
        return records_max - left

    def _read_ahead(self) -> None:
        limit = self.partition.shard.release_limit
        if limit is not None:
            self._ahead.read_on(limit)

    def _refill(self) -> None:
        """Read the rows that are due next from the runs of the index, if few are in memory."""
        refill = self.timers.index.wanted()
        if refill is None:
            return
        self._is_refilling = True

        def refilled() -> None:
            self._is_refilling = False
            if not self._is_over:
                self._ready(self)

        self._files.refill(refill, refilled)

    def _free(self, rows: Sequence[DueRow]) -> list[DueRow]:
        """Return the rows that wait as they say; set those aside that an uncommitted change names."""
        timers, waiting = self.timers, self.timers.waiting
        free = []
        for row in rows:
            if timers.is_held(row.arrival):
                self._aside.append(row)
            elif waiting.waits(row.arrival) and waiting.due_ms(row.arrival, row.due_ms) == row.due_ms:
                free.append(row)
        return free

    def _read(self, rows: Sequence[DueRow]) -> None:
        ahead = self._ahead.take(rows)
        try:
            found = read_waiting(self._logs, rows, ahead, may_wait=False)
        except (OSError, OffsetGone) as error:
            self._failed(rows, error)
            return
        if found is not None:
            self._propose(rows, found)
            return
        self._counters.read_ahead_misses += len(rows) - len(ahead)

        def read() -> list[Waiting]:
            found = read_waiting(self._logs, rows, ahead, may_wait=True)
            assert found is not None, "a read that may wait returns records"
            return found

        self._in_job(rows, read, lambda found: self._was_read(rows, found))

    def _read_schedules(self, rows: Sequence[DueRow], found: Sequence[Waiting], unknown: Sequence[Waiting]) -> None:
        """Read the schedules of some records that were found for `rows`, then propose all of them."""

        def done(schedules: dict[int, Schedule]) -> None:
            self._recurrences.adopt(schedules)
            self._was_read(rows, found)

        self._in_job(rows, lambda: schedules_of(unknown), done)

    def _in_job(self, rows: Sequence[DueRow], read: Callable[[], T], then: Callable[[T], None]) -> None:
        """Read what the release of `rows` needs, in a job.  Nothing of the partition is taken meanwhile."""
        self._is_reading = True

        def job() -> T | Exception:
            try:
                return read()
            except (OSError, OffsetGone, BadSchedule) as error:
                return error

        def done(found: T | Exception) -> None:
            if self._is_over:
                return
            self._is_reading = False
            if isinstance(found, Exception):
                self._failed(rows, found)
            else:
                then(found)
            self._ready(self)

        self._machine.read_jobs.submit(job, done, self._machine.failed)

    def _was_read(self, rows: Sequence[DueRow], found: Sequence[Waiting]) -> None:
        """Propose records that a job has read, except for those that have changed meanwhile."""
        if not self.partition.shard.accepts_writes:
            self.timers.index.put_back(pack_rows(rows))
            return
        free = self._free(rows)
        arrivals = {row.arrival for row in free}
        # Some may have been moved to another time and back meanwhile: the index would return their rows again.
        self.timers.index.claim(pack_rows(free))
        self._propose(free, [it for it in found if it.arrival in arrivals])

    def _failed(self, rows: Sequence[DueRow], error: Exception) -> None:
        self._read_problem(error)
        self.timers.index.put_back(pack_rows(rows))

    def _read_problem(self, error: Exception) -> None:
        self._failed_at = self._machine.clock.monotonic_ms()
        if not isinstance(error, BadSchedule):
            self._read_failed(self.partition, error)
        elif self._bad_schedules.occurred(None) is not None:
            self._machine.events.error(
                "schedule not known",
                topic=self.partition.topic,
                partition=self.partition.number,
                problem=str(error),
                then="the schedules of the partition, and perhaps its other records, wait for a later try",
                fix="install the newest version of tzdata for all brokers, or cancel the record",
            )

    def _propose(self, rows: Sequence[DueRow], found: Sequence[Waiting]) -> None:
        """Propose the first records of those that were found for `rows`, and put the other rows back."""
        shard = self.partition.shard
        found = fitting(found, min(BYTES_MAX, shard.batch_bytes_max))
        rest = rows[len(found) :]  # those that were found are the first ones
        more = self._take_max + self._take_max // 8 + 1  # not twice as many: most of them would be put back
        self._take_max = max(len(found), 1) if rest else min(more, RECORDS_MAX)
        self.timers.index.put_back(pack_rows(rest))
        # The time of each record had come when it was taken.  The release clock may have gone back since then, if the
        # clock of a voter has stepped; consumers rely on timestamps that are not before the times of their records.
        latest_ms = found[-1].due_ms if found else 0
        stamp = max(self._append_time, latest_ms)
        unknown = self._recurrences.unknown(found, stamp)
        if unknown:
            self._read_schedules(rows[: len(found)], found, unknown)
            return
        if self.timers.waiting.recurring:
            found = [it for it in found if not self._recurrences.is_missed(it, stamp)]
        if not found:
            return
        batch = released_batch(found, stamp)
        size = len(batch)
        try:
            log_index = append_own(self.partition, batch, 0, append_time_min=stamp)
        except ValueError as error:  # the journal took larger batches when the record arrived
            self._release_refused(found[0].arrival, str(error))
            proposed = {it.arrival for it in found}
            self.timers.index.put_back(pack_rows(row for row in rows if row.arrival in proposed))
            return
        self._refused = -1, 0
        self._in_flight += 1
        self._in_flight_bytes += size

        def committed(is_committed: bool) -> None:
            self._in_flight -= 1
            self._in_flight_bytes -= size
            if is_committed:
                self._count(found)
            if is_committed and not self._is_over:
                self._ready(self)

        shard.when_committed(log_index, committed)

    def _release_refused(self, arrival: int, problem: str) -> None:
        """
        Log, less and less often, that the journal does not take a record.  Those that are due later wait for it,
        because a partition delivers records in the order in which they are due.
        """
        self._failed_at = self._machine.clock.monotonic_ms()
        tries = self._refused[1] + 1 if self._refused[0] == arrival else 1
        self._refused = arrival, tries
        if tries & (tries - 1) and tries % LOGGED_TRIES:  # neither a power of two nor long after the last event
            return
        topic, number = self.partition.topic, self.partition.number
        self._machine.events.error(
            "release blocked",
            topic=topic,
            partition=number,
            arrival=arrival,
            problem=problem,
            tries=tries,
            then="what is due later in the partition waits for this record",
            fix="if the topic has one replica, raise tidemill.journal.bytes.max of its broker; "
            f"or cancel the record: tidemill timers cancel {topic} --arrival {number}:{arrival}",
        )

    def _count(self, released: Sequence[Waiting]) -> None:
        """Count records whose release has just been committed."""
        counters, wall_ms = self._counters, self._machine.clock.wall_ms()
        counters.records_released += len(released)
        counters.lateness_seconds.observe_all([max(wall_ms - it.due_ms, 0) for it in reversed(released)])

    def _count_moved(self, size: int) -> None:
        """Count bytes that were moved to the kept log."""
        self._counters.bytes_moved += size

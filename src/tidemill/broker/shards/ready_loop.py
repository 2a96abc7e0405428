"""The ready loop: makes the rows that shards have queued durable, in blocks with one sync each.

    turn:     gather the rows of all shards into a block ──▶ journal thread: write and sync it
    written:  every shard in the block advances ──▶ another turn

While a block is in flight, a turn begins another one only if the queued rows fill a complete block; otherwise, it is
better to let rows that arrive in the meantime make the next block larger.  For the same reason, the turn after a
written block runs after the callbacks that are already scheduled.

A second thread writes blocks back to the segments, several blocks per write-back.  A third thread writes checkpoints,
grows the ring and removes files, one step at a time, so that a checkpoint never occupies the disk for longer than one
sync.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.model.clock import Clock
from tidemill.model.shard import ShardId
from tidemill.shard.shard import Shard
from tidemill.storage.disk import DiskFull, File
from tidemill.storage.journal.block import IN_FLIGHT_BLOCKS_MAX, Block, Report, WriteBack
from tidemill.storage.store import Store
from tidemill.telemetry.metrics import Metrics

IDLE_MS: Final = 1_000  # if no rows follow for this long, an empty block records that the last one is synced (rule J5)
SYNC_MS_MAX: Final = 1_000  # if a block takes longer, the disk is considered hung, and heartbeats are not sent
CHECKPOINT_MS: Final = 10_000  # between checkpoints while rows are being written; bounds how much a restart must read
WRITE_BACK_BYTES: Final = 1 << 20
"""
Blocks are written back as soon as their total size reaches this bound, or twice this bound on a broker that writes
mostly as a follower.  Smaller amounts wait in memory until the next tick.
"""


class ReadyLoop:
    def __init__(
        self,
        store: Store,
        shards: dict[ShardId, Shard],
        machine: Machine,
        *,
        stall_tolerant_clock: Clock,
        metrics: Metrics,
    ) -> None:
        """
        `machine.failed` ends the process, because a failed sync is never retried (rule J8).  `stall_tolerant_clock`
        measures how long the disk has not responded: a process that gets no CPU time notices late that a sync has
        ended.
        """
        self._store = store
        self._shards = shards
        self._turns = machine.turns
        self._clock = machine.clock
        self._stall_tolerant_clock = stall_tolerant_clock
        self._journal_jobs = machine.journal_jobs
        self._write_back_jobs = machine.write_back_jobs
        self._background_jobs = machine.background_jobs
        self._failed = machine.failed
        self._metrics = metrics
        self._is_scheduled = False
        self._is_background_busy = False
        self._is_stopping = False
        self._written_at = self._checkpoint_at = machine.clock.monotonic_ms()
        self._started_at = self._write_back_at = self._step_at = stall_tolerant_clock.monotonic_ms()
        self._idle_waiters: list[Callable[[], None]] = []

    def wake(self) -> None:
        """Schedule a turn.  Called when a shard may have queued rows."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._turns.call_soon(self._turn)

    def tick(self) -> None:
        """Begin the blocks, checkpoints, write-backs and background work that are due.  Called a few times a second."""
        now = self._clock.monotonic_ms()
        if not self._store.in_flight:
            if self._store.has_pending:
                self._start()
            elif not self._store.is_quiescent and now - self._written_at >= IDLE_MS:
                self._start(empty=True)
        if now - self._checkpoint_at >= CHECKPOINT_MS and self._store.can_checkpoint:
            self._begin_checkpoint()
        self._store.close_surplus_files()
        self._store.cache.sweep()
        self._write_back(bytes_min=0)
        self._run_background()

    @property
    def is_syncing(self) -> bool:
        """
        Return whether the journal is making rows durable.  A broker whose disk hangs must not continue to lead.

        The disk is also considered hung if the ring is full and a step that would free space in it takes too long.
        """
        longest_ago = self._stall_tolerant_clock.monotonic_ms() - SYNC_MS_MAX
        if self._store.in_flight and self._started_at < longest_ago:
            return False
        is_write_back_late = self._store.is_writing_back and self._write_back_at < longest_ago
        is_step_late = self._is_background_busy and self._step_at < longest_ago
        return not (self._store.is_journal_full and (is_write_back_late or is_step_late))

    def when_idle(self, callback: Callable[[], None]) -> None:
        """
        Call `callback` once all queued rows are durable and no background work is running.  Used for a clean stop.
        """
        self._idle_waiters.append(callback)
        self._notify_idle()

    def _turn(self) -> None:
        self._is_scheduled = False
        while self._may_start and self._start():
            pass
        self._notify_idle()

    @property
    def _may_start(self) -> bool:
        in_flight = self._store.in_flight
        return not in_flight or (in_flight < IN_FLIGHT_BLOCKS_MAX and self._store.has_full_block)

    def _start(self, *, empty: bool = False) -> bool:
        """Begin to write a block.  Return False if no rows are queued or the ring has no room for them."""
        is_first = not self._store.in_flight
        block = self._store.gather(empty=empty)
        if block is None:
            if self._store.has_pending and self._store.can_checkpoint:
                self._begin_checkpoint()  # the ring is full, and only a checkpoint makes room
                self._run_background()
            return False
        if is_first:
            self._started_at = self._stall_tolerant_clock.monotonic_ms()
        store, clock, durations = self._store, self._clock, self._metrics.journal_sync_seconds

        def write() -> Block:
            began_us = clock.monotonic_us()
            block.write(store.journal)
            durations.observe(clock.monotonic_us() - began_us)
            return block

        self._journal_jobs.submit(write, self._written, self._failed)
        return True

    def _written(self, block: Block) -> None:
        self._written_at = self._clock.monotonic_ms()
        self._started_at = self._stall_tolerant_clock.monotonic_ms()
        metrics = self._metrics
        metrics.journal_blocks += 1
        metrics.journal_bytes += block.size
        reports = self._store.written(block)
        if self._store.has_pending:
            self.wake()
        failures = self._advance(reports)
        if self._store.wants_checkpoint:
            self._begin_checkpoint()
        self._run_background()
        self._notify_idle()
        if failures:
            raise ExceptionGroup("callbacks of durable rows failed", failures)

    def _advance(self, reports: Sequence[Report]) -> list[Exception]:
        """
        Advance the shards in a written block, and return the exceptions that their callbacks raised.  An exception
        stops neither the other shards nor later blocks.
        """
        failures: list[Exception] = []
        for report in reports:
            shard = self._shards.get(report.shard_id)
            if shard is not None:
                try:
                    shard.advance(report)
                except Exception as error:
                    failures.append(error)
        return failures

    def _write_back(self, bytes_min: int) -> None:
        """Write blocks back if they add up to at least `bytes_min` bytes, or if a checkpoint is waiting for them."""
        write_back = self._store.next_write_back(bytes_min)
        if write_back is None:
            return
        self._write_back_at = self._stall_tolerant_clock.monotonic_ms()
        disk = self._store.disk

        def execute() -> WriteBack:
            write_back.execute(disk)
            return write_back

        self._write_back_jobs.submit(execute, self._write_back_done, self._failed)

    def _write_back_done(self, write_back: WriteBack) -> None:
        self._store.write_back_done(write_back)
        self._run_background()
        self._notify_idle()

    def _begin_checkpoint(self) -> None:
        self._checkpoint_at = self._clock.monotonic_ms()
        self._store.begin_checkpoint()

    def _run_background(self) -> None:
        """
        Begin the next background task if none is running.  Removals have priority over checkpoints, and checkpoints
        have priority over growth of the ring.
        """
        self._write_back(WRITE_BACK_BYTES << self._store.mostly_follower_writes)
        if self._is_background_busy or not self._store.has_background_work:
            return
        removals = self._store.removal_steps()
        if removals:
            self._background(_each(removals), lambda _: self._store.removed())
            return
        checkpoint = self._store.checkpoint_steps()
        if checkpoint is not None:
            self._background(checkpoint, self._checkpointed, self._store.checkpoint_failed)
        elif self._store.wants_growth:
            self._background(self._store.growth_steps(), self._store.grown, lambda: self._store.grown(None))

    def _checkpointed(self, _: object) -> None:
        self._store.checkpointed()
        self._metrics.checkpoints += 1
        self._metrics.checkpoint_seconds += (self._clock.monotonic_ms() - self._checkpoint_at) / 1_000
        if self._store.has_pending and not self._store.in_flight:
            self._start()

    def _background(
        self,
        steps: Iterator[File | None],
        done: Callable[[File | None], None],
        full: Callable[[], None] | None = None,
    ) -> None:
        """Run each of `steps` as a job.  Then pass the last result to `done`, or call `full` if the disk is full."""
        self._is_background_busy = True
        self._step_at = self._stall_tolerant_clock.monotonic_ms()
        last: File | None = None

        def step() -> tuple[bool, File | None]:
            try:
                return False, next(steps)
            except StopIteration:
                return True, None

        def stepped(outcome: tuple[bool, File | None]) -> None:
            nonlocal last
            self._step_at = self._stall_tolerant_clock.monotonic_ms()
            is_over, result = outcome
            if not is_over:
                last = result
                self._background_jobs.submit(step, stepped, failed)
                return
            self._is_background_busy = False
            done(last)
            self._run_background()
            self._notify_idle()

        def failed(error: BaseException) -> None:
            self._is_background_busy = False
            if isinstance(error, DiskFull) and full is not None:
                full()
                self._notify_idle()
                return
            self._failed(error)

        self._background_jobs.submit(step, stepped, failed)

    def _notify_idle(self) -> None:
        if not (self._idle_waiters or self._is_stopping):
            return
        store = self._store
        if (
            store.in_flight
            or self._is_background_busy
            or self._is_scheduled
            or store.has_pending
            or store.is_writing_back
        ):
            return
        if self._is_stopping and not store.is_quiescent:
            self._start(empty=True)
            if store.in_flight:
                return
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            waiter()

    def begin_stop(self) -> None:
        """
        Begin a clean stop.  An empty block confirms that the newest block is synced, and a final checkpoint leaves
        little to read at the next start.
        """
        self._is_stopping = True
        if self._store.can_checkpoint:
            self._begin_checkpoint()
        if not self._store.in_flight:
            self._start(empty=not self._store.has_pending)
        self._run_background()


def _each(steps: list[Callable[[], None]]) -> Iterator[None]:
    for step in steps:
        step()
        yield

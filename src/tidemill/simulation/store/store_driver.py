"""A driver that runs a store, its loop and its jobs in one thread, step by step, and records every row in the model.

The driver replaces `broker/shards/ready_loop.py`.  Between the steps of a block, it executes steps of background work,
so that a crash point may fall into a half-written checkpoint while later blocks are being written.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.elections import none_alive
from tidemill.raft.entry import Entry
from tidemill.raft.replica import Replica
from tidemill.simulation.store.store_model import Row, StoreHistory
from tidemill.storage.disk import Disk, DiskFull, File, SyncFailed
from tidemill.storage.journal.block import IN_FLIGHT_BLOCKS_MAX, Block, Report
from tidemill.storage.journal.removals import Step
from tidemill.storage.journal.shard_log import ShardDescriptor, ShardLog
from tidemill.storage.partition.partition_log import LogConfig
from tidemill.storage.store import Store

STEPS_MAX: Final = 10_000  # a store that is not idle after this many steps is considered stuck


class StoreDriver:
    def __init__(self, store: Store, disk: Disk, history: StoreHistory, config: LogConfig) -> None:
        self.store = store
        self.disk = disk
        self.history = history
        self.config = config
        self.replicas: dict[ShardId, Replica] = {}
        self.checkpoints = 0
        self.checkpoints_failed = 0
        self.full_write_backs = 0
        self.in_flight_max = IN_FLIGHT_BLOCKS_MAX
        self.pairs = 0  # the number of blocks that were in flight together with an earlier block
        # The smallest size of a write-back.  If it is above 0, blocks wait to be written back together, and their rows
        # may be truncated or trimmed in the meantime.
        self.write_back_bytes_min = 0
        self.runs_background = True  # whether checkpoints, growth and removals run
        self.before_write_back: Callable[[], None] = _nothing
        self.after_write_back: Callable[[], None] = _nothing
        self._steps: Iterator[File | None] | None = None
        self._done: Callable[[File | None], None] = _ignore
        self._last: File | None = None
        for log in store.shards.values():
            self._configure(log)

    # Operations on shards.

    def open_shard(self, shard_id: ShardId, descriptor: ShardDescriptor) -> ShardLog:
        log = self.store.open_shard(shard_id, descriptor)
        self._configure(log)
        self.history.submit(Row(shard_id, descriptor=descriptor))
        return log

    def close_shard(self, shard_id: ShardId) -> None:
        self.store.close_shard(shard_id)
        self.replicas.pop(shard_id, None)
        self.history.submit(Row(shard_id))

    def vote(self, shard_id: ShardId, term: int, voted_for: ReplicaKey | None) -> None:
        self.store.vote(shard_id, self.store.shards[shard_id], term, voted_for)
        self.history.submit(Row(shard_id, vote=(term, voted_for)))

    def append(self, shard_id: ShardId, entries: list[Entry]) -> None:
        for entry in entries:
            self.history.submit_entry(shard_id, entry)
        self.store.append(self.store.shards[shard_id], entries)

    def truncate(self, shard_id: ShardId, from_index: int) -> None:
        self.store.truncate(self.store.shards[shard_id], from_index)
        self.history.submit(Row(shard_id, truncated_from=from_index))

    def trim(self, shard_id: ShardId, partition: int, offset: int) -> None:
        self.store.trim(self.store.shards[shard_id], partition, offset)
        self.history.submit(Row(shard_id, trimmed=(partition, offset)))

    def commit(self, shard_id: ShardId, index: int) -> None:
        self.history.committed[shard_id] = index
        self.store.shards[shard_id].commit(index)

    def elect(self, shard_id: ShardId, me: ReplicaKey, now_ms: int) -> None:
        """Make `me`, the shard's only voter, its leader."""
        log = self.store.shards[shard_id]
        replica = self.replicas[shard_id] = Replica(
            me=me,
            memberships=list(log.memberships),
            term=log.term,
            voted_for=log.voted_for,
            log=log,
            commit_index=log.commit_index,
            jitter_ms=_no_jitter,
        )
        replica.tick(now_ms, now_ms, none_alive)
        self._execute(shard_id, replica)

    def propose(self, shard_id: ShardId, entry: Entry) -> None:
        replica = self.replicas[shard_id]
        replica.propose(entry)
        self._execute(shard_id, replica)

    def _execute(self, shard_id: ShardId, replica: Replica) -> None:
        ready = replica.ready()
        if ready.vote is not None:
            self.vote(shard_id, ready.vote.term, ready.vote.voted_for)
        if ready.entries:
            self.append(shard_id, ready.entries)

    # The work of the broker's event loop.

    def block(self, *, empty: bool = False) -> bool:
        """
        Write the next block, and the full blocks that are in flight with it.  Return False if there was nothing to
        write.

        In about half of the calls, all of these blocks are written before the store receives the first result.
        """
        store = self.store
        in_flight = self._gather(empty=empty)
        if not in_flight:
            if store.has_pending and store.can_checkpoint and self.runs_background:
                store.begin_checkpoint()
            self.background_step()
            return False
        self.pairs += len(in_flight) - 1
        is_reported_late = in_flight[0].sequence % 2 == 0
        for block in in_flight:
            self.background_step()
            self._write(block, in_flight)
            self.background_step()
            if not is_reported_late:
                self._written(block)
        for block in in_flight if is_reported_late else ():
            self._written(block)
        return True

    def _gather(self, *, empty: bool) -> list[Block]:
        in_flight: list[Block] = []
        while not in_flight or (len(in_flight) < self.in_flight_max and self.store.has_full_block):
            block = self.store.gather(empty=empty and not in_flight)
            if block is None:
                break
            self.history.gather(block.sequence, [shard_id for shard_id, _ in block.rows])
            in_flight.append(block)
        return in_flight

    def _write(self, block: Block, in_flight: list[Block]) -> None:
        try:
            block.write(self.store.journal)
        except SyncFailed:
            # A real journal thread tries to write later blocks until the loop has received the error.
            for behind in in_flight[in_flight.index(block) + 1 :]:
                with suppress(SyncFailed):
                    behind.write(self.store.journal)
            raise

    def _written(self, block: Block) -> None:
        store = self.store
        reports = store.written(block)
        self.history.acknowledge(block.sequence)
        for report in reports:
            self._report(report, block.sequence)
        if store.wants_checkpoint and self.runs_background:
            store.begin_checkpoint()
        self.background_step()

    def _write_back(self, bytes_min: int) -> None:
        write_back = self.store.next_write_back(bytes_min)
        if write_back is None:
            return
        self.background_step()
        self.before_write_back()
        write_back.execute(self.disk)
        self.after_write_back()
        self.background_step()
        self.full_write_backs += write_back.is_full
        self.store.write_back_done(write_back)

    def _report(self, report: Report, sequence: int) -> None:
        shard_id = report.shard_id
        durable = self.history.models[sequence].shards[shard_id]
        log = self.store.shards.get(shard_id)
        if log is None:
            return
        assert report.log_index <= len(durable.entries), f"{report} reports more than block {sequence} holds"
        reported = None if report.vote is None else (report.vote.term, report.vote.voted_for)
        assert reported in (None, (durable.term, durable.voted_for)), (
            f"{report} reports another vote than block {sequence}"
        )
        replica = self.replicas.get(shard_id)
        if replica is not None and replica.advance(report.term, report.log_index, report.vote):
            self.commit(shard_id, replica.commit_index)
            if replica.has_ready:
                self._execute(shard_id, replica)

    def background_step(self) -> None:
        """Execute one step of background work: removals, a checkpoint or the growth of the journal."""
        if self._steps is None and self.runs_background:
            self._begin_background()
        if self._steps is None:
            return
        try:
            self._last = next(self._steps)
        except StopIteration:
            self._steps = None
            self._done(self._last)
        except DiskFull:
            self._steps = None
            if self.store.is_checkpointing:
                self.checkpoints_failed += 1
                self.store.checkpoint_failed()
            else:
                self.store.grown(None)

    def _begin_background(self) -> None:
        store = self.store
        self._last = None
        self._write_back(self.write_back_bytes_min)
        if self._steps is not None:  # a checkpoint began during the write-back
            return
        removals = store.removal_steps()
        if removals:
            self._steps, self._done = _each(removals), self._removed
            return
        checkpoint = store.checkpoint_steps()
        if checkpoint is not None:
            self._steps, self._done = iter(checkpoint), self._checkpointed
        elif store.wants_growth:
            self._steps, self._done = store.growth_steps(), store.grown

    def _removed(self, _: File | None) -> None:
        self.store.removed()

    def _checkpointed(self, _: File | None) -> None:
        self.checkpoints += 1
        self.store.checkpointed()

    @property
    def is_idle(self) -> bool:
        return self._steps is None and not self.store.has_pending and not self.store.is_checkpointing

    def drain(self) -> None:
        """Write blocks and execute background steps until nothing is queued and no background work is left."""
        for _ in range(STEPS_MAX):
            if not self.block():
                if self._steps is None:
                    self._begin_background()
                if self.is_idle:
                    return
        raise AssertionError(f"the store is not idle after {STEPS_MAX} steps")

    def _configure(self, log: ShardLog) -> None:
        for partition in log.partitions.values():
            partition.config = self.config


def _each(steps: list[Step]) -> Iterator[None]:
    for step in steps:
        step()
        yield


def _nothing() -> None:
    return None


def _ignore(_: File | None) -> None:
    return None


def _no_jitter() -> int:
    return 0

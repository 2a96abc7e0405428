"""Store: everything that a broker keeps on disk, and the order in which it is written.  The entry point of `storage`.

The event loop queues rows (`append`, `vote`, `truncate`, …) and gathers them into blocks (`gather`).  One thread writes
and syncs a block; then the loop calls `written`.  A second thread writes the bytes of durable blocks back to the
segments, several blocks at a time (`next_write_back`, `write_back_done`).  At most two blocks and one write-back are in
flight.  A third thread executes checkpoints, removals and the growth of the ring, step by step.

    block_queue   queued rows, blocks in flight        removals      files that may be removed
    write_back    durable blocks to segments           checkpointer  the capture at P, and its syncs
    ring_growth   more files for the journal           dirty_files   files that the next checkpoint syncs

The rules are in `docs/formats/journal.md`.  No method blocks, except the steps, `Block.write` and `WriteBack.execute`.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.entry import Entry
from tidemill.storage import paths
from tidemill.storage.checkpoint.checkpoint import ClosedShard
from tidemill.storage.checkpoint.checkpointer import Checkpointer
from tidemill.storage.disk import Disk, File
from tidemill.storage.install.install_row import apply_install_row, split_install_row
from tidemill.storage.journal.block import Block, Report, WriteBack
from tidemill.storage.journal.block_queue import BlockQueue, reports_of
from tidemill.storage.journal.dirty_files import DirtyFiles
from tidemill.storage.journal.journal import RESERVE_DIVISOR, Journal
from tidemill.storage.journal.journal_block import HEADER_BYTES, PAGE_BYTES
from tidemill.storage.journal.open_files import close_surplus
from tidemill.storage.journal.queued_rows import VoteBefore
from tidemill.storage.journal.removals import Removals, Step
from tidemill.storage.journal.ring_growth import RingGrowth
from tidemill.storage.journal.row import ROW_BYTES, RowKind
from tidemill.storage.journal.shard_log import TAIL_ENTRIES, ShardDescriptor, ShardLog, damage_row, vote_row
from tidemill.storage.journal.write_back import WriteBackQueue
from tidemill.storage.machine.producer_machine import PRODUCER_EXPIRATION_MS
from tidemill.storage.machine.shard_machine import MachineRegistry
from tidemill.storage.partition.tail_cache import TailCache


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The sizes of files, blocks and caches, in bytes; sizes of files are multiples of a page."""

    journal_first_bytes: int = 16 << 20  # small, so that the first start is quick
    journal_file_bytes: int = 64 << 20
    journal_bytes_max: int = 512 << 20
    block_bytes_max: int = 4 << 20
    cache_bytes_max: int = 64 << 20
    checkpoint_bytes: int = 128 << 20  # a checkpoint begins when this much of the ring, or half of the ring, is in use
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS
    tail_entries: int = TAIL_ENTRIES  # committed entries of each shard that stay in memory
    absent_ms_max: int = 0  # for so long, entries stay in memory for a member that is absent, and may come back


class Store:
    """
    The state of a broker's disk.  `shards` are the open shards; `closed` keeps the terms and votes of closed shards.
    """

    def __init__(
        self,
        disk: Disk,
        key: bytes,
        options: StoreOptions,
        cache: TailCache,
        journal: Journal,
        machines: MachineRegistry,
        shards: dict[ShardId, ShardLog],
        closed: dict[ShardId, ClosedShard],
    ) -> None:
        self.disk = disk
        self.options = options
        self.cache = cache
        self.journal = journal
        self.machines = machines
        self.shards = shards
        self.closed = closed
        self.dirty = DirtyFiles()
        self.blocks = BlockQueue(key, journal, options.block_bytes_max)
        self.removals = Removals(disk, self.dirty)
        blocks, removals = self.blocks, self.removals  # not `self`, so that a store is freed once nothing refers to it
        self.write_back = WriteBackQueue(shards, self.dirty, lambda: removals.closing(blocks.synced_control_rows))
        self._awaited_checkpoint = 0
        self.checkpoints = Checkpointer(
            disk, key, journal, shards, closed, self.blocks, self.write_back, self.removals, self.dirty
        )
        self.growth = RingGrowth(
            disk, journal, file_bytes=options.journal_file_bytes, bytes_max=options.journal_bytes_max
        )
        self._opened_seen = -1  # `disk.opened` at the last check after which no surplus files were open

    # ── rows that shards queue ─────────────────────────────────────────────────────────────────────────────────

    def open_shard(self, shard_id: ShardId, descriptor: ShardDescriptor) -> ShardLog:
        """
        Open a shard on this broker.  Its OPENED row is queued before the replica's first vote.  A closed shard may be
        opened again once its files are gone (`may_open`): it accepts a snapshot and nothing else.
        """
        assert shard_id not in self.shards and self.may_open(shard_id), f"shard {shard_id} is open, or being removed"
        log = ShardLog(self.disk, self.cache, shard_id, descriptor, self.machines)
        if shard_id in self.closed:
            self.closed.pop(shard_id).restore(log)
        self.shards[shard_id] = log
        self.blocks.rows.put_control_row(shard_id, Entry(RowKind.OPENED, descriptor.encode()))
        return log

    def may_open(self, shard_id: ShardId) -> bool:
        """Return whether no file of an earlier replica of the shard is left."""
        return not self.removals.holds(shard_id)

    def close_shard(self, shard_id: ShardId) -> None:
        """Close a shard.  Its queued entries are dropped; its files are removed once its CLOSED row is durable."""
        log = self.shards.pop(shard_id)
        dropped = self.blocks.rows.drop(shard_id)
        if dropped is not None:
            # They have not been acknowledged.  A checkpoint may have the shard open until the CLOSED row is in a block.
            log.truncate(max(dropped, log.first_index))
        for partition in log.partitions.values():
            partition.is_closed = True
            self.cache.forget(partition.tail)
        self.closed[shard_id] = ClosedShard.of(log, log.last_index)
        self.blocks.rows.put_control_row(shard_id, Entry(RowKind.CLOSED, b""))
        self.removals.add_shard(self.blocks.rows.control_rows_queued, log)

    def vote(self, shard_id: ShardId, log: ShardLog, term: int, voted_for: ReplicaKey | None) -> None:
        """Set and queue the replica's term and its vote in that term."""
        before = VoteBefore(log.term, log.voted_for)
        log.term = term
        log.voted_for = voted_for
        log.changed = True
        self.blocks.put_vote(shard_id, vote_row(term, voted_for), before)

    def append(self, log: ShardLog, entries: list[Entry]) -> None:
        """Append and queue entries, in the order of their indexes."""
        for entry in entries:
            log.append(entry)
        self.blocks.rows.put(log.shard_id, entries)

    def truncate(self, log: ShardLog, from_index: int) -> None:
        """
        Remove the entries from `from_index` on.  Entries that no block holds yet are dropped from the queue.  If a
        block may hold some of them, queue a TRUNCATE row, so that recovery removes them, too.
        """
        rows = self.blocks.rows
        is_journaled = rows.cut(log.shard_id, from_index)
        truncated = log.truncate(from_index)
        for segment in truncated.removed:
            segment.file = None  # a new segment may get the same path, but not the same file
        if is_journaled:
            rows.put_control_row(log.shard_id, Entry(RowKind.TRUNCATE, b"", index=from_index))
        stale = [segment.path for segment in truncated.removed]
        self.blocks.drop_files(
            [*stale, *(paths.index_file(segment.path) for segment in [*truncated.removed, *truncated.cut])]
        )
        self.checkpoints.begin_again()

    def trim(self, log: ShardLog, partition: int, offset: int) -> None:
        """Trim the partition's log below `offset`.  Segments are removed once the TRIMMED row is durable."""
        it = log.partitions[partition]
        removed = it.trim(offset)
        log.changed = True
        row = Entry(RowKind.TRIMMED, b"", partition=partition, base_offset=offset, record_count=1)
        # Recovery needs `segment_base`: the row may precede rows of batches that were appended before the trim.
        row.segment_base = it.first_base
        self.blocks.rows.put_control_row(log.shard_id, row)
        self.removals.add_segments(self.blocks.rows.control_rows_queued, removed)
        self.checkpoints.begin_again()

    def mark_damage(self, log: ShardLog, partition: int, offset: int, problem: str) -> None:
        """
        Record that the files of `partition` are damaged, starting with the segment that contains `offset`.  The files
        remain unchanged until an install replaces them.  A checkpoint may contain the mark before its row is durable.
        """
        log.mark_damage(partition, offset, problem)
        # The row is queued among the entries and not as a control row, so that it stays in order with rows of installs.
        self.blocks.rows.put(log.shard_id, [damage_row(partition, offset, problem)])

    def install(self, log: ShardLog, row: Entry) -> None:
        """
        Apply and queue a row of an install.  The file contents that the row describes must already be synced.  The row
        may be larger than the ring, so it is queued in parts.
        """
        apply_install_row(log, row)
        self.blocks.rows.put(log.shard_id, split_install_row(row, self.options.block_bytes_max // 4))

    def is_written_back(self, shard_id: ShardId) -> bool:
        """Return whether a shard's queued entries are all in its segments, so that no write to its files is pending."""
        capture = self.checkpoints.capture
        blocks = [*self.blocks.in_flight, *([] if capture is None else capture.write_back.blocks)]
        rows = itertools.chain(self.blocks.rows, self.write_back.rows(), *[block.rows for block in blocks])
        return not any(shard == shard_id and row.kind not in (RowKind.VOTE, RowKind.DAMAGED) for shard, row in rows)

    # Limits on the size of a batch.

    @property
    def batch_bytes_max(self) -> int:
        """The size of the largest batch whose block fits into the ring; a larger batch would wait forever."""
        return self.journal.row_bytes_max - ROW_BYTES - HEADER_BYTES

    @property
    def replicated_batch_bytes_max(self) -> int:
        """The size of the largest batch that fits into every broker's ring, even into one that has not grown yet."""
        ring = self.options.journal_first_bytes
        return min(self.batch_bytes_max, ring - ring // RESERVE_DIVISOR - PAGE_BYTES - ROW_BYTES - HEADER_BYTES)

    # ── from rows to durable blocks ────────────────────────────────────────────────────────────────────────────

    @property
    def has_pending(self) -> bool:
        """Whether rows are queued."""
        return bool(self.blocks.rows)

    @property
    def in_flight(self) -> int:
        """The number of blocks that have been gathered but are not durable yet."""
        return len(self.blocks.in_flight)

    @property
    def has_full_block(self) -> bool:
        """Whether the queued rows fill a block."""
        return self.blocks.has_full_block

    @property
    def is_journal_full(self) -> bool:
        """Whether the last `gather` found no room in the ring for waiting entries."""
        return self.blocks.is_journal_full

    @property
    def is_quiescent(self) -> bool:
        """Whether nothing is queued, and an empty block records that the newest block with rows is synced."""
        return self.blocks.is_quiescent

    def gather(self, *, empty: bool = False) -> Block | None:
        """Return the next block (`BlockQueue.gather`); the caller writes it."""
        return self.blocks.gather(empty=empty)

    def written(self, block: Block) -> list[Report]:
        """Record that the block is durable.  Return a report for each shard with rows in the block."""
        self.blocks.written(block)
        self.write_back.add(block)
        return reports_of(block.rows, self.shards)

    # ── from durable blocks to segments ────────────────────────────────────────────────────────────────────────

    def next_write_back(self, bytes_min: int) -> WriteBack | None:
        """Return the next write-back (`WriteBackQueue.next`); the caller executes it."""
        return self.write_back.next(bytes_min, self.checkpoints.awaited_sequence)

    @property
    def is_writing_back(self) -> bool:
        return self.write_back.running is not None

    @property
    def mostly_follower_writes(self) -> bool:
        """Whether at least half of the bytes of the last write-back belonged to shards that other brokers lead."""
        return self.write_back.mostly_follower_writes

    def write_back_done(self, write_back: WriteBack) -> None:
        self.write_back.ended(write_back)

    # ── background work ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def has_background_work(self) -> bool:
        """
        Whether there may be removals, a checkpoint or growth to do.  Must be cheap, because it is read for every block.
        """
        journal = self.journal
        return bool(self.removals or self.checkpoints.capture or journal.used * 2 > journal.capacity)

    def removal_steps(self) -> list[Step]:
        """
        Return the removals that may be executed now; none while a write-back could create the files again.  Call
        `removed` once all of them are done.
        """
        return [] if self.is_writing_back else self.removals.steps(self.blocks.synced_control_rows)

    def removed(self) -> None:
        """Record that the removals that `removal_steps` returned are done."""
        self.removals.done()

    @property
    def wants_checkpoint(self) -> bool:
        """
        Whether enough of the ring is in use for a checkpoint.  The caller may also begin one because enough time has
        passed.
        """
        threshold = min(self.options.checkpoint_bytes, self.journal.capacity // 2)
        return not self.is_checkpointing and self.journal.used >= threshold

    @property
    def is_checkpointing(self) -> bool:
        return self.checkpoints.capture is not None

    @property
    def can_checkpoint(self) -> bool:
        """Whether no checkpoint is running, and a block is newer than the last one, or another one is awaited."""
        checkpoints = self.checkpoints
        is_outdated = self.journal.sequence > checkpoints.sequence or checkpoints.number < self._awaited_checkpoint
        return not self.is_checkpointing and is_outdated

    def await_checkpoint(self) -> int:
        """
        Return the number of a checkpoint that will contain the present state.  It is taken even if no row is written
        until then.
        """
        self._awaited_checkpoint = self.checkpoints.next_number
        return self._awaited_checkpoint

    def begin_checkpoint(self) -> None:
        self.checkpoints.begin()

    def checkpoint_steps(self) -> Iterator[None] | None:
        """Return the steps of the checkpoint for another thread (`Checkpointer.steps`); None until it can begin."""
        return self.checkpoints.steps()

    def checkpointed(self) -> None:
        self.checkpoints.finished()

    def checkpoint_failed(self) -> None:
        """Record that the checkpoint failed because the disk was full."""
        self.checkpoints.failed()

    def close_surplus_files(self) -> None:
        """
        Close open segment files above the limit.  Called a few times a second; does nothing if no file has been opened
        since the open files were last found to be within the limit.
        """
        opened = self.disk.opened
        if opened == self._opened_seen:
            return
        pinned = {*self.dirty.segments}
        if self.write_back.running is not None:
            pinned.update(run.segment for run in self.write_back.running.runs)
        if self.checkpoints.capture is not None:
            pinned |= self.checkpoints.capture.segments.keys()
        if close_surplus(self.shards.values(), pinned):
            self._opened_seen = opened

    @property
    def wants_growth(self) -> bool:
        return self.growth.is_wanted(self.blocks.in_flight)

    def growth_steps(self) -> Iterator[File | None]:
        """Return the steps that prepare a journal file, for another thread; pass the last value yielded to `grown`."""
        return self.growth.steps()

    def grown(self, file: File | None) -> None:
        self.growth.finished(file)

    def close(self) -> None:
        """Close the files.  A clean stop writes its last block and checkpoint before it calls this."""
        for log in self.shards.values():
            log.close()
        for ring_file in self.journal.ring:
            ring_file.file.close()

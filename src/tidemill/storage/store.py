"""Store: everything one broker keeps on disk, and the order in which it gets there.

The loop queues rows (`append`, `vote`, `truncate`, …) and takes them out a block at a time (`gather`).  One thread
writes and syncs the block; then the loop learns of it (`written`).  The bytes of written blocks are spread over the
segments by a second one, several blocks at once (`next_write_back`, `write_back_done`).  At most two blocks and one
spread are in the air.  A checkpoint runs beside that, on a third thread, as a list of steps.

What must hold stands in `docs/formats/journal.md`.  Nothing here waits, but for the steps, `Block.write` and
`WriteBack.execute`.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, COMMAND, Entry
from tidemill.raft.ready import Vote
from tidemill.storage import paths
from tidemill.storage.checkpoint.checkpoint import (
    ClosedShard,
    encode_checkpoint,
    encode_closed,
    encode_shard,
    write_checkpoint,
)
from tidemill.storage.disk import Disk, File, remove_if_empty, remove_if_there
from tidemill.storage.install.install_row import apply_install_row, split_install_row
from tidemill.storage.journal.block import Block, Report, Run, WriteBack, write_back_run
from tidemill.storage.journal.journal import RESERVE_DIVISOR, Journal, JournalPosition, prepare_file
from tidemill.storage.journal.journal_block import HEADER_BYTES, PAGE_BYTES, encode_block, padded
from tidemill.storage.journal.queued_rows import VoteBefore, queued_rows
from tidemill.storage.journal.row import ROW_BYTES, RowKind
from tidemill.storage.journal.row_queue import RowQueue
from tidemill.storage.journal.shard_log import TAIL_ENTRIES, ShardDescriptor, ShardLog, damage_row, read_vote, vote_row
from tidemill.storage.partition.open_files import close_surplus
from tidemill.storage.partition.producer_machine import PRODUCER_EXPIRATION_MS
from tidemill.storage.partition.segment import Segment, save_index
from tidemill.storage.partition.tail_cache import TailCache
from tidemill.storage.shard_machine import MachineRegistry

Step = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Sizes in bytes, multiples of a page where files are meant."""

    journal_first_bytes: int = 16 << 20  # small, so that a first start takes no time
    journal_file_bytes: int = 64 << 20
    journal_bytes_max: int = 512 << 20
    block_bytes_max: int = 4 << 20
    cache_bytes_max: int = 64 << 20
    checkpoint_bytes: int = 128 << 20  # of journal in use, after which a checkpoint begins; at most half the ring
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS
    tail_entries: int = TAIL_ENTRIES  # of each shard: committed ones kept in memory, whoever needs them


class Store:
    """`shards` are the open ones."""

    def __init__(
        self,
        disk: Disk,
        key: bytes,
        options: StoreOptions,
        cache: TailCache,
        journal: Journal,
        machines: MachineRegistry,
    ) -> None:
        self.disk = disk
        self.key = key
        self.options = options
        self.cache = cache
        self.journal = journal
        self.machines = machines
        self.shards: dict[ShardId, ShardLog] = {}
        self.closed: dict[ShardId, ClosedShard] = {}
        self.checkpoint_number = 0
        self.checkpoint_sequence = 0  # P of the newest durable checkpoint
        self._queue = RowQueue()
        self._last_was_empty = False
        self.is_journal_full = False  # for entries that wait, at the last look
        self._dirty_segments: dict[Segment, None] = {}
        self._dirty_directories: dict[str, None] = {}
        self._blocks_to_write_back: list[Block] = []  # durable, oldest first; in memory until they are in the segments
        self._bytes_to_write_back = 0
        self.mostly_follower_writes = False  # as far as the last spread tells: others lead what it was of
        self._active_write_back: WriteBack | None = None
        self._in_flight: deque[Block] = deque()  # gathered and not written yet, oldest first
        self._met_full_disk = False  # the next checkpoint spreads what is left, and nobody else does
        self._before: deque[tuple[int, ShardId, VoteBefore]] = deque()  # by queued votes; first their number
        self._stale_files: deque[tuple[int, str]] = deque()  # of truncations; first the fact that must be synced before
        self._removals: list[tuple[int, Segment]] = []  # (facts queued before it may go, segment)
        self._closings: list[tuple[int, ShardLog]] = []
        self._synced_control_rows = 0
        self._capture: CheckpointCapture | None = None
        self._preparing = False
        self._opened_seen = -1  # files that the disk had opened when there was no surplus of them
        self.replayed_closings: list[ShardLog] = []  # recovery's: shards that the journal closes

    # ── the loop queues ────────────────────────────────────────────────────────────────────────────────────────

    def open_shard(self, shard_id: ShardId, opening: ShardDescriptor) -> ShardLog:
        """A shard lives here from now on; journaled before its first vote."""
        assert shard_id not in self.shards and shard_id not in self.closed, f"shard {shard_id} has been opened before"
        log = ShardLog(self.disk, self.cache, shard_id, opening, self.machines)
        self.shards[shard_id] = log
        self._queue.put_control_row(shard_id, Entry(RowKind.OPENED, opening.encode()))
        return log

    def close_shard(self, shard_id: ShardId) -> None:
        """It does not live here any more; its files go once that is journaled."""
        log = self.shards.pop(shard_id)
        for partition in log.partitions.values():
            partition.is_closed = True
            self.cache.forget(partition.tail)
        self.closed[shard_id] = ClosedShard(log.term, log.voted_for)
        self._queue.put_control_row(shard_id, Entry(RowKind.CLOSED, b""))
        self._closings.append((self._queue.control_rows_queued, log))

    def vote(self, shard_id: ShardId, log: ShardLog, term: int, voted_for: ReplicaKey | None) -> None:
        self._before.append((self._queue.control_rows_queued + 1, shard_id, VoteBefore(log.term, log.voted_for)))
        log.term = term
        log.voted_for = voted_for
        log.changed = True
        self._queue.put_control_row(shard_id, vote_row(term, log.voted_for))

    def append(self, log: ShardLog, entries: list[Entry]) -> None:
        """Entries of the replica's own term, or a leader's; in order."""
        for entry in entries:
            log.append(entry)
        self._queue.put(log.shard_id, entries)

    def truncate(self, log: ShardLog, from_index: int) -> None:
        """
        Entries from `from_index` on are gone, here and, once that is journaled, after a restart.  What no block holds
        needs no row: it never gets there.
        """
        is_journaled = self._queue.cut(log.shard_id, from_index)
        truncated = log.truncate(from_index)
        for segment in truncated.removed:
            segment.file = None  # dropped: a segment of the same name may follow
        if is_journaled:
            self._queue.put_control_row(log.shard_id, Entry(RowKind.TRUNCATE, b"", index=from_index))
        number = self._queue.control_rows_queued
        for segment in truncated.removed:
            self._stale_files += [(number, segment.path), (number, paths.index_file(segment.path))]
        self._stale_files += [(number, paths.index_file(segment.path)) for segment in truncated.cut]
        self._choose_again()

    def trim(self, log: ShardLog, partition: int, offset: int) -> None:
        """What lies below `offset` is no longer needed; it goes once that is journaled."""
        it = log.partitions[partition]
        removed = it.trim(offset)
        log.changed = True
        row = Entry(RowKind.TRIMMED, b"", partition=partition, base_offset=offset, record_count=1)
        row.segment_base = it.first_base  # recovery may meet the row before batches that were appended before it
        self._queue.put_control_row(log.shard_id, row)
        number = self._queue.control_rows_queued
        self._removals += [(number, segment) for segment in removed]
        self._choose_again()

    def _choose_again(self) -> None:
        """A checkpoint that has begun stands for what was gone just now; what is not spread of that never will be."""
        if self._capture is not None and not self._capture.is_running:
            self._capture = CheckpointCapture()

    def mark_damage(self, log: ShardLog, partition: int, offset: int, problem: str) -> None:
        """
        From the segment that holds `offset` on, files of `partition` are not what was written.  They stay as they are
        until an install replaces them; a checkpoint may know of it before the row is durable.
        """
        log.mark_damage(partition, offset, problem)
        self._queue.put(log.shard_id, [damage_row(partition, offset, problem)])  # in order with rows of installs

    def install(self, log: ShardLog, row: Entry) -> None:
        """A row of an install; what it says of files is synced.  It may be larger than the ring: it goes in parts."""
        apply_install_row(log, row)
        self._queue.put(log.shard_id, split_install_row(row, self.options.block_bytes_max // 4))

    def is_written_back(self, shard_id: ShardId) -> bool:
        """
        Whether the segments have all that was queued of a shard, and nothing on its way will touch its files.
        """
        blocks = [*self._blocks_to_write_back, *self._in_flight]
        blocks += [] if self._active_write_back is None else self._active_write_back.blocks
        blocks += [] if self._capture is None else self._capture.write_back.blocks
        rows = itertools.chain(self._queue, *[block.rows for block in blocks])
        return not any(shard == shard_id and row.kind not in (RowKind.VOTE, RowKind.DAMAGED) for shard, row in rows)

    # ── a block at a time ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def batch_bytes_max(self) -> int:
        """A larger batch would wait for ever for its block to find room."""
        return self.journal.row_bytes_max - ROW_BYTES - HEADER_BYTES

    @property
    def replicated_batch_bytes_max(self) -> int:
        """What every broker's journal takes: rings grow each for itself, and a row that one cannot take stops it."""
        ring = self.options.journal_first_bytes
        return min(self.batch_bytes_max, ring - ring // RESERVE_DIVISOR - PAGE_BYTES - ROW_BYTES - HEADER_BYTES)

    @property
    def has_pending(self) -> bool:
        return bool(self._queue)

    @property
    def in_flight(self) -> int:
        """Blocks that are gathered and not written yet."""
        return len(self._in_flight)

    @property
    def has_full_block(self) -> bool:
        """As much is queued as a block takes."""
        return self._queue.bytes >= self.options.block_bytes_max

    @property
    def is_quiescent(self) -> bool:
        """Nothing queued, and the newest block is known to be synced by a block behind it."""
        return not self._queue and (self._last_was_empty or self.journal.sequence == 0)

    def gather(self, *, empty: bool = False) -> Block | None:
        """The next block out of what is queued; None when there is nothing, or no room before the next checkpoint."""
        if not self._queue:
            self.is_journal_full = False
            if not empty or self._last_was_empty or padded(HEADER_BYTES) > self.journal.free:
                return None
            return self._block([])
        waiting = len(self._queue.entries)
        rows = self._queue.take(self.journal, self.options.block_bytes_max)
        self.is_journal_full = not rows or 0 < len(self._queue.entries) == waiting
        return self._block(rows) if rows else None

    def _block(self, rows: list[tuple[ShardId, Entry]]) -> Block:
        journal = self.journal
        parts, size = encode_block(self.key, journal.sequence + 1, journal.synced, rows)
        extents, joined = journal.reserve(size)
        self._last_was_empty = not rows
        control_rows_gathered = self._queue.control_rows_gathered
        while self._before and self._before[0][0] <= control_rows_gathered:
            self._before.popleft()
        block = Block(journal.sequence, rows, extents, joined, parts, size, control_rows_gathered)
        while self._stale_files and self._stale_files[0][0] <= control_rows_gathered:
            block.stale_files.append(self._stale_files.popleft()[1])
        self._in_flight.append(block)
        return block

    def _reports(self, rows: list[tuple[ShardId, Entry]]) -> list[Report]:
        newest: dict[ShardId, Entry] = {}
        votes: dict[ShardId, Vote] = {}
        installing: dict[ShardId, None] = {}
        for shard_id, entry in reversed(rows):
            if entry.kind <= COMMAND:
                if shard_id not in newest and (log := self.shards.get(shard_id)) is not None and log.holds(entry):
                    newest[shard_id] = entry
            elif entry.kind == RowKind.VOTE and shard_id not in votes:
                votes[shard_id] = Vote(entry.term, read_vote(entry))
            elif entry.kind == RowKind.INSTALLING:
                installing[shard_id] = None
            elif entry.kind == RowKind.INSTALLED:
                newest.setdefault(shard_id, entry)  # the last entry of the snapshot is durable, and all before it
        reports = []
        for shard_id in dict.fromkeys([*newest, *votes, *installing]):
            last = newest.get(shard_id)
            term, index = (0, 0) if last is None else (last.term, last.index)
            reports.append(Report(shard_id, term, index, votes.get(shard_id), shard_id in installing))
        return reports

    def written(self, block: Block) -> list[Report]:
        """The block is durable: what that means to whom."""
        self.journal.synced = block.sequence
        self._synced_control_rows = block.control_rows_gathered
        self._in_flight.popleft()
        self._blocks_to_write_back.append(block)
        self._bytes_to_write_back += block.size
        block.parts = []
        return self._reports(block.rows)

    # ── and from there to the segments ─────────────────────────────────────────────────────────────────────────

    def next_write_back(self, bytes_min: int) -> WriteBack | None:
        """
        What is durable and not in the segments yet.  None while that is less than `bytes_min` and no checkpoint waits
        for it, while one is in the air, and while the disk has no room.
        """
        if self._active_write_back is not None or self._met_full_disk or not self._blocks_to_write_back:
            return None
        capture = self._capture
        is_awaited = (
            capture is not None and capture.sequence is not None and not self._is_written_back(capture.sequence)
        )
        if not is_awaited and self._bytes_to_write_back < bytes_min:
            return None
        self._active_write_back = self._write_back_of_all()
        return self._active_write_back

    @property
    def is_writing_back(self) -> bool:
        return self._active_write_back is not None

    def _is_written_back(self, sequence: int) -> bool:
        """Whether the segments have what the durable blocks up to `sequence` hold."""
        waiting = self._active_write_back.blocks if self._active_write_back is not None else self._blocks_to_write_back
        return not waiting or waiting[0].sequence > sequence

    def _write_back_of_all(self) -> WriteBack:
        blocks, self._blocks_to_write_back = self._blocks_to_write_back, []
        self._bytes_to_write_back = 0
        runs = self._runs(blocks)
        led = sum(run.end - run.position for run in runs if run.is_led)
        followed = sum(run.end - run.position for run in runs if not run.is_led)
        self.mostly_follower_writes = 0 < followed >= led
        return WriteBack(blocks, runs)

    def _runs(self, blocks: list[Block]) -> list[Run]:
        """What goes to which segment; nothing of what was truncated, settled or closed since."""
        runs: dict[Segment, Run] = {}
        done: list[Run] = []
        for block in blocks:
            for shard_id, entry in block.rows:
                if entry.kind != BATCH:
                    continue
                log = self.shards.get(shard_id)
                payload = entry.payload
                if log is None or payload is None or not log.holds(entry):
                    continue
                segment = segment_at(log, entry)
                if segment is None:
                    continue
                run = runs.get(segment)
                if run is not None and run.end == entry.position:
                    run.parts.append(payload)
                    run.end += len(payload)
                    continue
                if run is not None:
                    done.append(run)
                is_read = log.is_led and log.partitions[entry.partition].is_read
                end = entry.position + len(payload)
                runs[segment] = Run(segment, entry.position, [payload], end, is_read, log.is_led)
        for segment in runs:
            segment.write_back_begins()
        return done + list(runs.values())

    def write_back_done(self, write_back: WriteBack) -> None:
        self._active_write_back = None
        self._dirty_directories |= dict.fromkeys(write_back.changed_directories)
        if write_back.is_full:
            self._met_full_disk = True
            self._redo_write_back(write_back.blocks)
        else:
            self._write_back(write_back)

    def _write_back(self, write_back: WriteBack) -> None:
        """Its bytes are in the segments; memory may let go of them."""
        for run in write_back.runs:
            run.segment.write_back_done(run.end)
            self._dirty_segments[run.segment] = None
        for block in write_back.blocks:
            for _, entry in block.rows:
                if entry.kind == BATCH:
                    entry.payload = entry.header = None

    def _redo_write_back(self, blocks: list[Block]) -> None:
        """In order: what is read from a file has no holes."""
        self._blocks_to_write_back = blocks + self._blocks_to_write_back
        self._bytes_to_write_back += sum(block.size for block in blocks)

    def note_dirty(self, segments: list[Segment], directories: list[str]) -> None:
        """Recovery has written them: the next checkpoint syncs them."""
        for segment in segments:
            self._dirty_segments[segment] = None
        for directory in directories:
            self._dirty_directories[directory] = None

    # ── what runs beside it ────────────────────────────────────────────────────────────────────────────────────

    @property
    def has_work_beside(self) -> bool:
        """Something may be wanted but blocks and spreads: removals, a checkpoint, growth.  Cheap: asked every block."""
        journal = self.journal
        return bool(self._removals or self._closings or self._capture or journal.used * 2 > journal.capacity)

    def removal_steps(self) -> list[Step]:
        """Files that are free to go, because what says so is synced; not while a spread could make them again."""
        steps: list[Step] = []
        if self._active_write_back is not None:
            return steps
        while self._removals and self._removals[0][0] <= self._synced_control_rows:
            segment = self._removals.pop(0)[1]
            self._dirty_segments.pop(segment, None)
            self._dirty_directories[segment.path.rpartition("/")[0]] = None
            steps.append(lambda segment=segment: remove_segment(self.disk, segment))  # type: ignore[misc]
        while self._closings and self._closings[0][0] <= self._synced_control_rows:
            log = self._closings.pop(0)[1]
            for partition in log.partitions.values():
                for segment in partition.segments:
                    self._dirty_segments.pop(segment, None)
                self._dirty_directories.pop(partition.directory, None)
            topic = paths.topic_directory(log.opening.topic_id)  # other shards' partitions may lie there, too
            self._dirty_directories[topic] = self._dirty_directories[paths.TOPICS] = None
            steps.append(lambda log=log: remove_shard(self.disk, log))  # type: ignore[misc]
        return steps

    @property
    def wants_checkpoint(self) -> bool:
        """Enough of the ring is in use.  Time is the caller's business."""
        threshold = min(self.options.checkpoint_bytes, self.journal.capacity // 2)
        return self._capture is None and self.journal.used >= threshold

    @property
    def is_checkpointing(self) -> bool:
        return self._capture is not None

    @property
    def can_checkpoint(self) -> bool:
        return self._capture is None and self.journal.sequence > self.checkpoint_sequence

    def begin_checkpoint(self) -> None:
        """
        Choose P: the newest gathered block.  The state is taken now, before a later row changes it; what is only
        queued is taken back out of it (`queued_rows.py`), for it may wait for the very room that this checkpoint makes.
        """
        assert self._capture is None, "a checkpoint is under way"
        self._capture = CheckpointCapture()
        self._choose_position()

    def _choose_position(self) -> None:
        capture = self._capture
        assert capture is not None, "no checkpoint is under way"
        queued = queued_rows(self._queue, ((shard_id, before) for _, shard_id, before in self._before))
        closing = {log.shard_id: log for number, log in self._closings if number > self._queue.control_rows_gathered}
        for shard_id, closed in self.closed.items():
            if shard_id not in closing:
                capture.sections.append(encode_closed(shard_id, closed))
        for log in [*self.shards.values(), *closing.values()]:
            if log.changed and log.installing is None:
                log.machines.forget_expired(log.commit_index, log.committed_append_time)
            rows = queued.get(log.shard_id)
            if rows is not None:
                if not rows.is_opening:
                    capture.sections.append(encode_shard(log, rows))
                continue
            if log.changed:
                log.section = encode_shard(log)
                log.changed = False
            capture.sections.append(log.section)
        capture.sequence, capture.head = self.journal.sequence, self.journal.head

    def checkpoint_steps(self) -> Iterator[None] | None:
        """
        Once P is durable and spread: the work, a step at a time, for another thread; then call `checkpointed`.  None
        before that.
        """
        if self._capture is not None and self._capture.sequence is None:
            self._choose_position()
        capture = self._capture
        if capture is None or capture.sequence is None or self.journal.synced < capture.sequence or capture.is_running:
            return None
        if not self._met_full_disk and not self._is_written_back(capture.sequence):
            return None
        capture.is_running = True
        capture.directories, self._dirty_directories = self._dirty_directories, {}
        here = {s for log in self.shards.values() for p in log.partitions.values() for s in p.segments}
        capture.segments = {segment: None for segment in self._dirty_segments if segment in here}  # others are removed
        self._dirty_segments = {}
        if self._met_full_disk:
            capture.write_back = self._write_back_of_all()
            capture.segments |= dict.fromkeys(run.segment for run in capture.write_back.runs)  # pinned from now on
        return self._execute(capture, [(segment, segment.file) for segment in capture.segments])

    def _execute(self, capture: "CheckpointCapture", segments: list[tuple[Segment, File | None]]) -> Iterator[None]:
        """Rule C2: segments, directories, the checkpoint's own file."""
        assert capture.sequence is not None and capture.head is not None, "P has not been chosen"
        write_back = capture.write_back
        write_back.remove_stale_files(self.disk)
        for run in write_back.runs:
            write_back_run(self.disk, run, write_back.changed_directories)
            yield
        for segment, known in segments:
            sync_segment(segment, known)  # also where it was truncated since: its row may be lost
            if segment.is_closed and segment.on_disk:
                save_index(self.disk, segment)
            yield
        for directory in dict.fromkeys([*capture.directories, *write_back.changed_directories]):
            if self.disk.exists(directory):
                self.disk.sync_directory(directory)
                yield
        number = self.checkpoint_number + 1
        data = encode_checkpoint(self.key, number, capture.sequence, capture.head, capture.sections)
        write_checkpoint(self.disk, number, data)
        yield

    def checkpointed(self) -> None:
        """The steps are done: the journal up to P is free."""
        capture = self._capture
        assert capture is not None and capture.sequence is not None, "no checkpoint is under way"
        self.checkpoint_number += 1
        self.checkpoint_sequence = capture.sequence
        if capture.write_back.blocks:
            self._write_back(capture.write_back)
            self._met_full_disk = False
        self.journal.release(capture.sequence)
        self._capture = None

    def checkpoint_failed(self) -> None:
        """The disk was full: P stays where it was, and the next one has to do all that this one had to."""
        capture = self._capture
        assert capture is not None, "no checkpoint is under way"
        self._capture = None
        write_back = capture.write_back
        self._redo_write_back(write_back.blocks)
        self._dirty_segments = capture.segments | self._dirty_segments
        self._dirty_directories |= capture.directories | dict.fromkeys(write_back.changed_directories)

    def close_surplus_files(self) -> None:
        """Called a few times a second; a broker that opens no file asks none of its segments."""
        opened = self.disk.opened
        if opened == self._opened_seen:
            return
        pinned = {*self._dirty_segments}
        if self._active_write_back is not None:
            pinned.update(run.segment for run in self._active_write_back.runs)
        if self._capture is not None:
            pinned |= self._capture.segments.keys()
        if close_surplus(self.shards.values(), pinned):
            self._opened_seen = opened

    @property
    def wants_growth(self) -> bool:
        """The ring could be larger, and is half full; and the file prepared last has the name that it is to have."""
        journal = self.journal
        grown = journal.capacity + self.options.journal_file_bytes
        return (
            not self._preparing
            and not any(block.joined for block in self._in_flight)
            and journal.prepared is None
            and grown <= self.options.journal_bytes_max
            and journal.used * 2 > journal.capacity
            and self.disk.free_space() > self.options.journal_file_bytes + journal.used
        )

    def growth_steps(self) -> Iterator[File | None]:
        """Prepare a file for the ring, a step at a time, on another thread; give what the last yields to `grown`."""
        self._preparing = True
        return prepare_file(self.disk, self.options.journal_file_bytes)

    def grown(self, file: File | None) -> None:
        self._preparing = False
        if file is not None:
            self.journal.prepared = file
            self.journal.prepared_size = self.options.journal_file_bytes

    def close(self) -> None:
        """Files only; a clean stop has written its last block and checkpoint before."""
        for log in self.shards.values():
            log.close()
        for ring_file in self.journal.ring:
            ring_file.file.close()


class CheckpointCapture:
    """A checkpoint that has begun: the state up to P, to be written once that is durable; and what it has in hand."""

    def __init__(self) -> None:
        self.sections: list[bytes] = []
        self.sequence: int | None = None  # P
        self.head: JournalPosition | None = None  # where the block after P begins
        self.is_running = False
        self.segments: dict[Segment, None] = {}
        self.directories: dict[str, None] = {}
        self.write_back = WriteBack([], [])  # of what found the disk full


def segment_at(log: ShardLog, entry: Entry) -> Segment | None:
    """Where a batch goes; None when that segment has gone since (settled, truncated)."""
    segments = log.partitions[entry.partition].segments
    for segment in reversed(segments):
        if segment.base_offset == entry.segment_base:
            return segment
        if segment.base_offset < entry.segment_base:
            break
    return None


def sync_segment(segment: Segment, known: File | None = None) -> None:
    """`known` was its file when it was decided to sync it."""
    file = known or segment.file
    if file is not None:
        file.sync()


def remove_segment(disk: Disk, segment: Segment) -> None:
    segment.file = None  # dropped, not closed: a reader may use it
    for path in (segment.path, paths.index_file(segment.path)):
        remove_if_there(disk, path)


def remove_shard(disk: Disk, log: ShardLog) -> None:
    """Every file of the shard's partitions, then their directories."""
    log.close()
    for partition in log.partitions.values():
        directory = partition.directory
        for name in disk.list(directory):
            remove_if_there(disk, f"{directory}/{name}")
        remove_if_empty(disk, directory)
    remove_if_empty(disk, paths.topic_directory(log.opening.topic_id))

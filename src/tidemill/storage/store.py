"""Store: everything one broker keeps on disk, and the order in which it gets there.

The loop queues rows (`append`, `vote`, `truncate`, …) and takes them out a block at a time (`gather`).  One thread
writes and syncs the block and spreads its bytes over the segments; then the loop learns of it (`written`).  At most
one block is in the air.  A checkpoint runs beside that, on another thread, as a list of steps.

What must hold stands in `docs/formats/journal.md`.  Nothing here waits, but for the steps and for `Block.write` and
`spread`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tidemill.model.broker_id import Voter
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, COMMAND, Command, Entry, Kind
from tidemill.storage import paths
from tidemill.storage.block import Block, Report, Run, spread_run
from tidemill.storage.checkpoint import ClosedShard, encode_checkpoint, encode_closed, encode_shard, write_checkpoint
from tidemill.storage.disk import Disk, File
from tidemill.storage.journal import Journal, Place, prepare_file
from tidemill.storage.journal_block import HEADER_BYTES, encode_block, padded
from tidemill.storage.row import ROW_BYTES
from tidemill.storage.segment import Segment, save_index
from tidemill.storage.shard_log import Opening, ShardLog, read_vote, vote_row
from tidemill.storage.tail_cache import TailCache

Step = Callable[[], None]

FREEING_KINDS: Final = frozenset(
    {Kind.VOTE, Kind.TRUNCATE, Kind.SETTLED, Kind.OPENED, Kind.CLOSED}
)  # may use the ring's reserve (rule J7), as may LOG_START commands


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Sizes in bytes, multiples of a page where files are meant."""

    journal_first_bytes: int = 16 << 20  # small, so that a first start takes no time
    journal_file_bytes: int = 64 << 20
    journal_bytes_max: int = 512 << 20
    block_bytes_max: int = 4 << 20
    cache_bytes_max: int = 64 << 20
    checkpoint_bytes: int = 128 << 20  # of journal in use, after which a checkpoint begins; at most half the ring
    producer_expiration_ms: int = 24 * 3_600_000


class Store:
    """`shards` are the open ones."""

    def __init__(self, disk: Disk, key: bytes, options: StoreOptions, cache: TailCache, journal: Journal) -> None:
        self.disk = disk
        self.key = key
        self.options = options
        self.cache = cache
        self.journal = journal
        self.shards: dict[ShardId, ShardLog] = {}
        self.closed: dict[ShardId, ClosedShard] = {}
        self.checkpoint_number = 0
        self.checkpoint_sequence = 0  # P of the newest durable checkpoint
        self._pending: list[tuple[ShardId, Entry]] = []
        self.pending_bytes = 0
        self._last_was_empty = False
        self._dirty_segments: dict[Segment, None] = {}
        self._dirty_directories: dict[str, None] = {}
        self._unspread: list[Run] = []  # what found no room on the disk
        self._removals: list[tuple[int, Segment]] = []  # (the block that must be synced before it may go, segment)
        self._closings: list[tuple[int, ShardLog]] = []
        self._leaving: dict[ShardId, ShardLog] = {}  # closed by a row that is still queued
        self._capture: _Capture | None = None
        self._preparing = False
        self.folded_closings: list[ShardLog] = []  # recovery's: shards that the journal closes

    # ── the loop queues ────────────────────────────────────────────────────────────────────────────────────────

    def open_shard(self, shard_id: ShardId, opening: Opening) -> ShardLog:
        """A shard lives here from now on; journaled before its first vote."""
        assert shard_id not in self.shards and shard_id not in self.closed, f"shard {shard_id} has been opened before"
        log = ShardLog(self.disk, self.cache, shard_id, opening)
        self.shards[shard_id] = log
        self._queue(shard_id, Entry(Kind.OPENED, opening.encode()))
        return log

    def close_shard(self, shard_id: ShardId) -> None:
        """It does not live here any more; its files go once that is journaled."""
        log = self.shards.pop(shard_id)
        self._leaving[shard_id] = log
        self.closed[shard_id] = ClosedShard(log.term, log.voted_for)
        self._queue(shard_id, Entry(Kind.CLOSED, b""))

    def vote(self, log: ShardLog, term: int, voted_for: Voter | None) -> None:
        log.term = term
        log.voted_for = voted_for
        self._queue(log.shard_id, vote_row(term, log.voted_for))

    def append(self, log: ShardLog, entries: list[Entry]) -> None:
        """Entries of the replica's own term, or a leader's; in order."""
        shard_id = log.shard_id
        pending = self._pending
        size = 0
        for entry in entries:
            log.append(entry)
            pending.append((shard_id, entry))
            size += ROW_BYTES + len(entry.payload or b"")
        self.pending_bytes += size

    def truncate(self, log: ShardLog, from_index: int) -> None:
        """
        Entries from `from_index` on are gone, here and, once that is journaled, after a restart.  No file is removed:
        what is left of them is written over, or cut by recovery.
        """
        log.truncate(from_index)
        shard_id = log.shard_id
        row = Entry(Kind.TRUNCATE, b"", index=from_index)
        kept = [
            (other, entry)
            for other, entry in self._pending
            if other != shard_id or entry.kind > COMMAND or entry.index < from_index
        ]
        # Rows of different shards have no order: where nothing of this shard is before it, it need not wait for room.
        first = len(kept) if any(other == shard_id for other, _ in kept) else 0
        kept.insert(first, (shard_id, row))
        self._pending = kept
        self.pending_bytes = sum(ROW_BYTES + len(entry.payload or b"") for _, entry in kept)

    def settle(self, log: ShardLog, partition: int, offset: int) -> None:
        """
        What lies below `offset` is no longer needed.  It leaves the log with the block that says so, and then the
        disk.
        """
        self._queue(log.shard_id, Entry(Kind.SETTLED, b"", partition=partition, base_offset=offset))

    def _queue(self, shard_id: ShardId, row: Entry) -> None:
        self._pending.append((shard_id, row))
        self.pending_bytes += ROW_BYTES + len(row.payload or b"")

    # ── a block at a time ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    @property
    def is_settled(self) -> bool:
        """Nothing queued, and the newest block is known to be synced by a block behind it."""
        return not self._pending and (self._last_was_empty or self.journal.sequence == 0)

    def gather(self, *, empty: bool = False) -> Block | None:
        """The next block out of what is queued; None when there is nothing, or no room before the next checkpoint."""
        if not self._pending:
            if not empty or self._last_was_empty or padded(HEADER_BYTES) > self.journal.free:
                return None
            return self._block([])
        rows = self._take()
        return self._block(rows) if rows else None

    def _take(self) -> list[tuple[ShardId, Entry]]:
        """Rows from the front of the queue, as many as a block and the ring hold."""
        limit = self.options.block_bytes_max
        size = HEADER_BYTES
        count = 0
        for _, entry in self._pending:
            grown = size + ROW_BYTES + len(entry.payload or b"")
            if grown > limit and count:
                break
            size, count = grown, count + 1
        if padded(size) > self.journal.free_for_entries:
            count, size = self._freeing_rows()
        taken = self._pending[:count]
        del self._pending[:count]
        self.pending_bytes -= size - HEADER_BYTES
        return taken

    def _freeing_rows(self) -> tuple[int, int]:
        """Into the ring's reserve: only the rows at the front that free space, or must not wait (rule J7)."""
        count = 0
        size = HEADER_BYTES
        for _, entry in self._pending:
            grown = size + ROW_BYTES + len(entry.payload or b"")
            if not _is_freeing(entry) or padded(grown) > self.journal.free:
                break
            size = grown
            count += 1
        return count, size

    def _block(self, rows: list[tuple[ShardId, Entry]]) -> Block:
        journal = self.journal
        parts, size = encode_block(self.key, journal.sequence + 1, journal.synced, rows)
        extents, joined = journal.reserve(size)
        self._last_was_empty = not rows
        for shard_id, row in rows:
            if row.kind > COMMAND:
                self._journaled(shard_id, row)
        return Block(journal.sequence, rows, self._reports(rows), self._runs(rows), extents, joined, parts)

    def _journaled(self, shard_id: ShardId, row: Entry) -> None:
        """
        What a row that is no entry says counts for checkpoints from its block on, neither sooner (it may be lost) nor
        later (rule C1).
        """
        log = self._leaving.get(shard_id) or self.shards.get(shard_id)
        assert log is not None, f"{row} of shard {shard_id}, which is not here"
        log.changed = True
        if row.kind == Kind.OPENED:
            log.is_journaled = True
        elif row.kind == Kind.VOTE:
            log.journaled_term, log.journaled_vote = row.term, read_vote(row)
        elif row.kind == Kind.SETTLED:
            removed = log.partitions[row.partition].settle(row.base_offset)
            self._removals += [(self.journal.sequence, segment) for segment in removed]
        elif row.kind == Kind.CLOSED:
            self._closings.append((self.journal.sequence, self._leaving.pop(shard_id)))

    def _reports(self, rows: list[tuple[ShardId, Entry]]) -> list[Report]:
        newest: dict[ShardId, int] = {}
        voted: dict[ShardId, int] = {}
        for shard_id, entry in rows:
            kind = entry.kind
            if kind <= COMMAND:
                newest[shard_id] = entry.index
            elif kind == Kind.VOTE:
                voted[shard_id] = entry.term
            elif kind == Kind.TRUNCATE:
                newest[shard_id] = min(newest.get(shard_id, 0), entry.index - 1)
        reports = []
        for shard_id in dict.fromkeys([*newest, *voted]):
            log = self.shards.get(shard_id)
            if log is not None:
                has_vote = voted.get(shard_id) == log.term
                reports.append(Report(shard_id, log.term, newest.get(shard_id, 0), has_vote))
        return reports

    def _runs(self, rows: list[tuple[ShardId, Entry]]) -> list[Run]:
        """What goes to which segment, one write for batches that lie behind each other."""
        runs: dict[Segment, Run] = {}
        done: list[Run] = []
        for shard_id, entry in rows:
            if entry.kind != BATCH:
                continue
            log = self.shards.get(shard_id)
            payload = entry.payload
            if log is None or payload is None:
                continue
            segment = _segment_at(log, entry)
            if segment is None:
                continue
            run = runs.get(segment)
            if run is not None and run.end == entry.position:
                run.parts.append(payload)
                runs[segment] = run._replace(end=run.end + len(payload))
                continue
            if run is not None:
                done.append(run)
            runs[segment] = Run(segment, entry.position, [payload], entry.position + len(payload))
        for segment in runs:
            segment.spread_begins()
        return done + list(runs.values())

    def written(self, block: Block) -> list[Report]:
        """The block is durable and spread: what that means to whom."""
        self.journal.synced = block.sequence
        if block.is_full:
            self._unspread += block.runs
        else:
            for run in block.runs:
                self._spread(run)
            for _, entry in block.rows:
                if entry.kind == BATCH:
                    entry.payload = entry.header = None
        for directory in block.new_directories:
            self._dirty_directories[directory] = None
        return block.reports

    def _spread(self, run: Run) -> None:
        run.segment.spread_ended(run.end)
        self._dirty_segments[run.segment] = None

    def note_dirty(self, segments: list[Segment], directories: list[str]) -> None:
        """Recovery has written them: the next checkpoint syncs them."""
        for segment in segments:
            self._dirty_segments[segment] = None
        for directory in directories:
            self._dirty_directories[directory] = None

    # ── what runs beside it ────────────────────────────────────────────────────────────────────────────────────

    def removal_steps(self) -> list[Step]:
        """Files that are free to go, because what says so is synced."""
        steps: list[Step] = []
        while self._removals and self._removals[0][0] <= self.journal.synced:
            segment = self._removals.pop(0)[1]
            self._dirty_segments.pop(segment, None)
            self._dirty_directories[segment.path.rpartition("/")[0]] = None
            steps.append(lambda segment=segment: remove_segment(self.disk, segment))  # type: ignore[misc]
        while self._closings and self._closings[0][0] <= self.journal.synced:
            log = self._closings.pop(0)[1]
            for partition in log.partitions.values():
                for segment in partition.segments:
                    self._dirty_segments.pop(segment, None)
                self._dirty_directories.pop(partition.directory, None)
            topic = paths.topic_directory(log.opening.topic_id)
            self._dirty_directories.pop(topic, None)
            self._dirty_directories[paths.TOPICS] = None
            steps.append(lambda log=log: remove_shard(self.disk, log))  # type: ignore[misc]
        return steps

    @property
    def wants_checkpoint(self) -> bool:
        """Enough of the ring is in use.  Time is the caller's business."""
        threshold = min(self.options.checkpoint_bytes, self.journal.capacity // 2)
        return self.journal.used >= threshold and self.can_checkpoint

    @property
    def is_checkpointing(self) -> bool:
        return self._capture is not None

    @property
    def can_checkpoint(self) -> bool:
        """There is something to save.  Not while a truncation is queued: what it cut cannot be shown as it was at P."""
        if self._capture is not None or self.journal.sequence <= self.checkpoint_sequence:
            return False
        return not any(row.kind == Kind.TRUNCATE for _, row in self._pending)

    def begin_checkpoint(self) -> None:
        """
        Choose P: the newest block, synced or not.  The state is taken now, less what is queued behind it: so a
        checkpoint can begin when the ring is full and what is queued cannot be written before it ends.
        """
        assert self.can_checkpoint, "a checkpoint cannot begin now"
        journal = self.journal
        queued: dict[ShardId, list[Entry]] = {}
        for shard_id, row in self._pending:
            if row.kind <= COMMAND:
                queued.setdefault(shard_id, []).append(row)
        sections = [
            encode_closed(shard_id, closed) for shard_id, closed in self.closed.items() if shard_id not in self._leaving
        ]
        for log in [*self.shards.values(), *self._leaving.values()]:
            if not log.is_journaled:
                continue
            behind = queued.get(log.shard_id)
            if log.changed or behind:
                for partition in log.partitions.values():
                    partition.producers.expire(log.last_append_time, self.options.producer_expiration_ms)
                log.section = encode_shard(log, behind or [])
                log.changed = bool(behind)
            sections.append(log.section)
        self._capture = _Capture(journal.sequence, journal.head, sections)

    def checkpoint_steps(self) -> Iterator[None] | None:
        """
        Once P is durable and spread: the work, a step at a time, for another thread; then call `checkpointed`.  None
        before that.
        """
        capture = self._capture
        if capture is None or self.journal.synced < capture.sequence or capture.is_running:
            return None
        capture.is_running = True
        segments, self._dirty_segments = self._dirty_segments, {}
        directories, self._dirty_directories = self._dirty_directories, {}
        unspread, self._unspread = self._unspread, []
        return self._carry_out(capture, list(segments), list(directories), unspread)

    def _carry_out(
        self, capture: "_Capture", segments: list[Segment], directories: list[str], unspread: list[Run]
    ) -> Iterator[None]:
        """Rule C2: segments, directories, the checkpoint's own file."""
        made: list[str] = []
        for run in unspread:
            spread_run(self.disk, run, made)
            yield
        capture.respread = unspread
        for segment in [*segments, *(run.segment for run in unspread)]:
            sync_segment(segment)
            if segment.is_closed:
                save_index(self.disk, segment)
            yield
        for directory in dict.fromkeys([*directories, *made]):
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
        assert capture is not None, "no checkpoint is under way"
        self.checkpoint_number += 1
        self.checkpoint_sequence = capture.sequence
        for run in capture.respread:
            self._spread(run)
        self.journal.release(capture.sequence)
        self._capture = None

    def checkpoint_failed(self) -> None:
        """The disk was full: P stays where it was, and everything is dirty still."""
        capture = self._capture
        assert capture is not None, "no checkpoint is under way"
        self._capture = None
        for log in self.shards.values():
            for partition in log.partitions.values():
                for segment in partition.segments:
                    if segment.on_disk:
                        self._dirty_segments[segment] = None
                self._dirty_directories[partition.directory] = None

    @property
    def wants_growth(self) -> bool:
        """The ring could be larger, and is half full."""
        journal = self.journal
        grown = journal.capacity + self.options.journal_file_bytes
        return (
            not self._preparing
            and journal.prepared is None
            and grown <= self.options.journal_bytes_max
            and journal.used * 2 > journal.capacity
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


class _Capture:
    """A checkpoint that has begun: the state as of block `sequence`, to be written once that block is durable."""

    def __init__(self, sequence: int, head: Place, sections: list[bytes]) -> None:
        self.sequence = sequence  # P
        self.head = head  # where the block after P begins
        self.sections = sections
        self.is_running = False
        self.respread: list[Run] = []


def _is_freeing(entry: Entry) -> bool:
    if entry.kind in FREEING_KINDS:
        return True
    return entry.kind == Kind.COMMAND and bool(entry.payload) and entry.payload[0] == Command.LOG_START  # type: ignore[index]


def _segment_at(log: ShardLog, entry: Entry) -> Segment | None:
    """Where a batch goes; None when that segment has gone since (settled, truncated)."""
    segments = log.partitions[entry.partition].segments
    for segment in reversed(segments):
        if segment.base_offset == entry.segment_base:
            return segment
        if segment.base_offset < entry.segment_base:
            break
    return None


def sync_segment(segment: Segment) -> None:
    file = segment.file
    if file is not None:
        file.sync()


def remove_segment(disk: Disk, segment: Segment) -> None:
    segment.close()
    for ending in ("log", "index"):
        path = segment.path.removesuffix("log") + ending
        if disk.exists(path):
            disk.remove(path)


def remove_shard(disk: Disk, log: ShardLog) -> None:
    """Every file of the shard's partitions, then their directories."""
    log.close()
    for partition in log.partitions.values():
        directory = partition.directory
        for name in disk.list(directory):
            disk.remove(f"{directory}/{name}")
        if disk.exists(directory):
            disk.remove_directory(directory)
    topic = paths.topic_directory(log.opening.topic_id)
    if disk.exists(topic) and not disk.list(topic):
        disk.remove_directory(topic)

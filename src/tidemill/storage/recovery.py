"""Initializes an empty data directory, or recovers one from its checkpoint and journal.

Recovery follows rules R1 to R6 of `docs/formats/journal.md`, in their order.  It does not trust the page cache: after
replay, it writes and syncs again everything that it will report as durable.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from tidemill.batches.batch import read_header
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, Entry, Kind
from tidemill.storage import paths
from tidemill.storage.checkpoint.checkpoint import (
    Checkpoint,
    ClosedShard,
    encode_checkpoint,
    newest_checkpoint,
    write_checkpoint,
)
from tidemill.storage.checkpoint.checkpointer import sync_segment
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.disk import Disk
from tidemill.storage.install.install_row import INSTALL_KINDS, replay_install_row
from tidemill.storage.journal.block import Run, write_back_run
from tidemill.storage.journal.journal import (
    Journal,
    JournalPosition,
    RingFile,
    newest_synced,
    position_after,
    prepare_file,
    read_extents,
)
from tidemill.storage.journal.journal_block import HEADER_BYTES as BLOCK_HEADER_BYTES
from tidemill.storage.journal.journal_block import PAGE_BYTES, BlockHeader, decode_header, decode_rows
from tidemill.storage.journal.open_files import OPEN_SEGMENTS_MAX
from tidemill.storage.journal.removals import remove_shard
from tidemill.storage.journal.row import RowKind
from tidemill.storage.journal.shard_log import ShardDescriptor, ShardLog, read_vote
from tidemill.storage.journal.write_back import segment_at
from tidemill.storage.machine.default_machines import default_machines
from tidemill.storage.machine.shard_machine import MachineRegistry
from tidemill.storage.partition.segment import Segment
from tidemill.storage.partition.tail_cache import TailCache
from tidemill.storage.store import Store, StoreOptions

FIRST_FILE = 1


class JournalDamaged(Exception):
    """
    Synced blocks, or both checkpoints, cannot be read.  The lost bytes may have contained votes, so the broker must
    rejoin as a new replica (rule R7 of `docs/formats/journal.md`).
    """


@dataclass(slots=True)
class RecoveryReport:
    """A report on recovery, for the event log."""

    blocks: int = 0
    rows: int = 0
    cut_bytes: int = 0
    removed_files: list[str] = field(default_factory=list)
    damaged: dict[ShardId, str] = field(default_factory=dict)


def check_nothing_lost(disk: Disk) -> None:
    """Raise DirectoryProblem if a directory without an identity contains topics: its identity must have been lost."""
    if disk.list(paths.TOPICS):
        raise DirectoryProblem(
            f"{paths.IDENTITY} is missing, but {paths.TOPICS}/ is not empty: restore it, or use an empty log.dirs; "
            "nothing was changed"
        )


def initialize_directory(disk: Disk, key: bytes, options: StoreOptions) -> None:
    """
    Create the contents of a new directory, except for its identity: one journal file and an empty checkpoint.  A crash
    at any point is harmless: the call may be repeated as long as the directory has no identity, or an identity with a
    different journal key.  Raises DirectoryProblem if the directory contains topics.
    """
    check_nothing_lost(disk)
    disk.make_directory(paths.JOURNAL)
    disk.make_directory(paths.TOPICS)
    for name in disk.list(paths.JOURNAL):
        disk.remove(f"{paths.JOURNAL}/{name}")
    size = options.journal_first_bytes
    for _ in prepare_file(disk, size, step_bytes=size):  # a single step, because nothing else uses the disk yet
        pass
    disk.rename(paths.JOURNAL_NEXT, paths.journal_file(FIRST_FILE))
    disk.sync_directory(paths.JOURNAL)
    write_checkpoint(disk, 0, encode_checkpoint(key, 0, 0, JournalPosition(FIRST_FILE, 0), []))


def open_store(
    disk: Disk, key: bytes, options: StoreOptions, machines: MachineRegistry | None = None
) -> tuple[Store, RecoveryReport]:
    """
    Recover the store of an initialized directory.  `machines` are the shard state machines, by default the built-in
    ones.  Raises JournalDamaged and DirectoryProblem.  Synced blocks are never cut.
    """
    cache = TailCache(options.cache_bytes_max)
    machines = machines or default_machines(options.producer_expiration_ms)
    checkpoint = newest_checkpoint(disk, cache, key, machines)
    if checkpoint is None:
        raise JournalDamaged("neither checkpoint-0 nor checkpoint-1 is whole")
    ring = open_ring(disk)
    found = RecoveryReport()
    replayed = replay(disk, key, options, cache, machines, checkpoint, ring, found)
    store, walked = replayed.store, replayed.walked
    _check_damage(ring, key, store.journal.sequence)
    _write_again(disk, checkpoint, ring, walked[-1] if walked else None)
    _act(replayed, found)
    return store, found


def open_ring(disk: Disk) -> list[RingFile]:
    """Open the journal files, in the order of their numbers.  Raises JournalDamaged if one is missing or too short."""
    numbers = sorted(n for name in disk.list(paths.JOURNAL) if (n := paths.journal_number(name)) is not None)
    if numbers != list(range(FIRST_FILE, FIRST_FILE + len(numbers))) or not numbers:
        raise JournalDamaged(
            f"journal files {numbers} are there; they must be numbered from {FIRST_FILE} without a gap"
        )
    ring = []
    for number in numbers:
        file = disk.open(paths.journal_file(number))
        size = file.size()
        if not size or size % PAGE_BYTES:
            raise JournalDamaged(f"{paths.journal_file(number)} has {size} B; a part of it is missing")
        ring.append(RingFile(number, file, size))
    return ring


class Walked(NamedTuple):
    """A complete block that was replayed.  Its bytes are read again when they are needed, to bound memory."""

    journal_position: JournalPosition
    header: BlockHeader


class Replayed(NamedTuple):
    """The state after the checkpoint and all complete blocks of the journal."""

    store: Store
    walked: list[Walked]  # the complete blocks after the checkpoint
    closings: list[ShardLog]  # shards that these blocks close; their files may still exist


def replay(
    disk: Disk,
    key: bytes,
    options: StoreOptions,
    cache: TailCache,
    machines: MachineRegistry,
    checkpoint: Checkpoint,
    ring: list[RingFile],
    found: RecoveryReport,
) -> Replayed:
    """Replay all complete blocks after the checkpoint, in sequence (rule R1, first half)."""
    journal = Journal(disk, ring, head=checkpoint.head, sequence=checkpoint.sequence)
    store = Store(disk, key, options, cache, journal, machines, checkpoint.shards, checkpoint.closed)
    store.checkpoints.number, store.checkpoints.sequence = checkpoint.number, checkpoint.sequence
    capacity = journal.capacity
    journal_position = checkpoint.head
    walked: list[Walked] = []
    replayed = Replayed(store, walked, [])
    while True:
        header = decode_header(key, read_extents(ring, journal_position, BLOCK_HEADER_BYTES))
        if header is None or header.sequence != journal.sequence + 1 or header.size_bytes > capacity:
            break
        data = read_extents(ring, journal_position, header.size_bytes)
        rows = decode_rows(header, memoryview(data)) if len(data) == header.size_bytes else None
        if rows is None:
            break
        journal.sequence = header.sequence
        journal.account(header.sequence, header.size_bytes)
        for shard_id, row in rows:
            _replay_row(replayed, shard_id, row)
        found.blocks += 1
        found.rows += len(rows)
        walked.append(Walked(journal_position, header))
        journal_position = position_after(ring, journal_position, header.size_bytes)
    journal.resume(journal_position)
    for log in store.shards.values():
        log.note_trimmed()
    return replayed


def _replay_row(replayed: Replayed, shard_id: ShardId, row: Entry) -> None:
    store, kind = replayed.store, row.kind
    if kind == RowKind.OPENED:
        assert row.payload is not None, f"the OPENED row of shard {shard_id} has no descriptor"
        descriptor = ShardDescriptor.decode(row.payload)
        opened = store.shards[shard_id] = ShardLog(store.disk, store.cache, shard_id, descriptor, store.machines)
        if shard_id in store.closed:
            store.closed.pop(shard_id).restore(opened)
        return
    log = store.shards.get(shard_id)
    if log is None:
        return  # the shard is closed; rows that were queued before CLOSED may be written after it
    if kind in (Kind.BATCH, Kind.COMMAND):
        assert row.payload is not None, f"{row} has no bytes"
        if kind == BATCH:
            header = read_header(row.payload)
            log.replay(row, header)
            row.payload = None  # the payload is a view, which would keep the whole block in memory
        else:
            row.payload = bytes(row.payload)
            log.replay(row, None)
    elif kind == RowKind.VOTE:
        log.term, log.voted_for = row.term, read_vote(row)
    elif kind == RowKind.TRUNCATE:
        log.truncate(row.index)
    elif kind == RowKind.TRIMMED:
        log.partitions[row.partition].trim(row.base_offset, row.segment_base if row.record_count else None)
    elif kind == RowKind.DAMAGED:
        log.mark_damage(row.partition, row.base_offset, bytes(row.payload or b"").decode())
    elif kind in INSTALL_KINDS:
        replay_install_row(log, row)
    elif kind == RowKind.CLOSED:
        store.closed[shard_id] = ClosedShard.of(log, log.last_index)
        replayed.closings.append(store.shards.pop(shard_id))
    else:
        raise JournalDamaged(f"a row of kind {kind} in shard {shard_id}: written by a newer version; use that one")


def _check_damage(ring: list[RingFile], key: bytes, sequence: int) -> None:
    """Raise JournalDamaged if the first block that cannot be read was synced (rules R5 and R6)."""
    synced = newest_synced(ring, key)
    if synced > sequence:
        raise JournalDamaged(
            f"block {sequence + 1} of the journal cannot be read, but was synced: "
            f"block {synced} was on disk when a later one was written"
        )


def _write_again(disk: Disk, checkpoint: Checkpoint, ring: list[RingFile], newest: Walked | None) -> None:
    """Write the checkpoint and the newest block again: a kill may have left them only in the page cache (rule R2)."""
    write_checkpoint(disk, checkpoint.number, checkpoint.data)
    disk.sync_directory(paths.JOURNAL)
    if newest is None:
        return
    data = read_extents(ring, newest.journal_position, newest.header.size_bytes)
    position, at = newest.journal_position.position, 0
    slot = next(i for i, file in enumerate(ring) if file.number == newest.journal_position.number)
    while at < len(data):
        here = ring[slot]
        run = min(len(data) - at, here.size - position)
        if run:
            here.file.write(position, [data[at : at + run]])
            here.file.sync()
        at += run
        slot, position = (slot + 1) % len(ring), 0


def _act(replayed: Replayed, found: RecoveryReport) -> None:
    """Make the files match the replayed state (rule R1, second half, and rules R3 and R4)."""
    store, walked, closings = replayed
    disk = store.disk
    for log in store.shards.values():
        log.install_parts.clear()  # parts of a row that was not written completely
    for log in closings:
        if log.shard_id in store.shards:
            continue  # opened again, once the old files were gone: what is there belongs to the new replica
        remove_shard(disk, log)
        store.dirty.add([], [paths.topic_directory(log.descriptor.topic_id), paths.TOPICS])
    damaged: set[Segment] = set()
    for log in store.shards.values():
        damaged |= _check_files(disk, log)
    _rewrite(store, walked, damaged)
    for log in store.shards.values():
        for partition in log.partitions.values():
            _fit_files(store, log, partition.directory, partition.segments, found)
        if log.damage is not None:
            found.damaged[log.shard_id] = log.damage
    if disk.exists(paths.JOURNAL_NEXT):
        disk.remove(paths.JOURNAL_NEXT)  # an unfinished journal file, whose zeros might not be on disk


def _check_files(disk: Disk, log: ShardLog) -> set[Segment]:
    """
    Return the segments that lack bytes that the checkpoint covers.  This runs before recovery writes to segments,
    because later writes would hide a gap.
    """
    damaged = set()
    for number, partition in log.partitions.items():
        for segment in partition.segments:
            problem = _problem_of(disk, segment)
            if problem is None:
                continue
            damaged.add(segment)
            log.damage = log.damage or problem
            if segment.base_offset < log.marked.get(number, segment.base_offset + 1):
                log.damaged_unmarked.setdefault(number, segment.base_offset)
    return damaged


def _problem_of(disk: Disk, segment: Segment) -> str | None:
    if not segment.written:
        return None
    if not disk.exists(segment.path):
        return f"{segment.path} is missing; it should have {segment.size} B"
    size = _size(disk, segment.path)
    return None if size >= segment.written else f"{segment.path} has {size} B; it should have {segment.size}"


def _size(disk: Disk, path: str) -> int:
    """Return the size of a file.  The file is closed again, because a process cannot keep all segments open."""
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _rewrite(store: Store, walked: list[Walked], damaged: set[Segment]) -> None:
    """
    Write the bytes of all rows after the checkpoint to the segments again, without comparing them with the old bytes
    (rule R3).  This includes the intact segments of a damaged shard: their ends may be only in the journal, which the
    next checkpoint frees.
    """
    ring = store.journal.ring
    made: dict[str, None] = {}
    segments: dict[Segment, None] = {}
    opened: dict[Segment, None] = {}
    for journal_position, header in walked:
        rows = decode_rows(header, memoryview(read_extents(ring, journal_position, header.size_bytes)))
        if rows is None:
            raise JournalDamaged(f"block {header.sequence} of the journal was whole, and is not any more")
        for shard_id, row in rows:
            log = store.shards.get(shard_id)
            if row.kind != BATCH or log is None or not _is_final(log, row):
                continue
            segment = segment_at(log, row)
            if segment is None or segment in damaged or row.payload is None:
                continue  # a later row has trimmed the segment, or the segment is damaged
            directories: list[str] = []
            run = Run(segment, row.position, [row.payload], row.position + len(row.payload))
            write_back_run(store.disk, run, directories)
            segments[segment] = opened[segment] = None
            made |= dict.fromkeys(directories)
            if len(opened) >= OPEN_SEGMENTS_MAX:
                for written in opened:
                    sync_segment(written)  # the sync of a file that was closed and reopened could miss a write error
                    written.close()
                opened.clear()
    for segment in segments:
        segment.write_back_begins()
        segment.write_back_done(segment.size)
        index = paths.index_file(segment.path)
        if store.disk.exists(index):
            store.disk.remove(index)  # the index may describe older content of the segment
        directory = segment.path.rpartition("/")[0]
        made |= dict.fromkeys([directory, directory.rpartition("/")[0], paths.TOPICS])
    store.dirty.add(list(segments), list(made))


def _is_final(log: ShardLog, row: Entry) -> bool:
    """Return whether the log, after the replay, holds the batch of this row at the same place in its segment."""
    if not log.first_index <= row.index <= log.last_index:
        return False
    entry = log.entry_at(row.index)
    return (entry.term, entry.partition, entry.segment_base, entry.position) == (
        row.term,
        row.partition,
        row.segment_base,
        row.position,
    )


def _fit_files(store: Store, log: ShardLog, directory: str, segments: list[Segment], found: RecoveryReport) -> None:
    """Cut bytes after the ends of segments, and remove files that no row refers to (rule R4)."""
    disk = store.disk
    known = {segment.base_offset: segment for segment in segments}
    for name in disk.list(directory):
        base_offset = paths.segment_base(name)
        if base_offset is not None and base_offset not in known:
            disk.remove(f"{directory}/{name}")
            found.removed_files.append(f"{directory}/{name}")
            store.dirty.add([], [directory])
    for segment in segments:
        if not disk.exists(segment.path):
            continue  # `_check_files` has recorded this damage
        size = _size(disk, segment.path)
        if size > segment.size:
            segment.opened(disk).truncate(segment.size)
            store.dirty.add([segment], [])
            found.cut_bytes += size - segment.size
    for segment in segments[:-1]:
        segment.is_closed = True
    for segment in segments[-1:]:
        index = paths.index_file(segment.path)
        if disk.exists(index):
            disk.remove(index)  # the index dates from a time when another segment followed this one

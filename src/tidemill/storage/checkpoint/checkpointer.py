"""The steps of taking a checkpoint: capture the state, sync the segments, free the journal (rules C1 and C2).

    begin ──▶ the state up to P is captured ──▶ P is durable and written back ──▶ steps, on another thread ──▶ finished
                                                                                                          └──▶ failed

P is the newest block that has been gathered when the state is captured.
"""

from collections.abc import Iterator, Mapping

from tidemill.model.shard import ShardId
from tidemill.storage.checkpoint.checkpoint import (
    ClosedShard,
    encode_checkpoint,
    encode_closed,
    encode_shard,
    write_checkpoint,
)
from tidemill.storage.disk import Disk, File
from tidemill.storage.journal.block import WriteBack, write_back_run
from tidemill.storage.journal.block_queue import BlockQueue
from tidemill.storage.journal.dirty_files import DirtyFiles
from tidemill.storage.journal.journal import Journal, JournalPosition
from tidemill.storage.journal.queued_rows import QueuedRows, VoteBefore, queued_rows
from tidemill.storage.journal.removals import Removals
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.journal.write_back import WriteBackQueue
from tidemill.storage.partition.segment import Segment, save_index


class CheckpointCapture:
    """A checkpoint that has begun: the captured state up to block P, and the files that the checkpoint must sync."""

    def __init__(self) -> None:
        self.sections: list[bytes] = []
        self.sequence: int | None = None  # block P; None until the state is captured
        self.head: JournalPosition | None = None  # the position at which the block after P begins
        self.is_running = False
        self.segments: dict[Segment, None] = {}
        self.directories: dict[str, None] = {}
        self.write_back = WriteBack([], [])  # blocks that could not be written back earlier because the disk was full


class Checkpointer:
    """Takes checkpoints.  Its methods are called on the event loop, but the steps run on another thread."""

    def __init__(
        self,
        disk: Disk,
        key: bytes,
        journal: Journal,
        shards: Mapping[ShardId, ShardLog],
        closed: Mapping[ShardId, ClosedShard],
        blocks: BlockQueue,
        write_back: WriteBackQueue,
        removals: Removals,
        dirty: DirtyFiles,
    ) -> None:
        self._disk = disk
        self._key = key
        self._journal = journal
        self._shards = shards
        self._closed = closed
        self._blocks = blocks
        self._write_back = write_back
        self._removals = removals
        self._dirty = dirty
        self.number = 0  # the number of the newest durable checkpoint
        self.sequence = 0  # block P of the newest durable checkpoint
        self.capture: CheckpointCapture | None = None

    @property
    def awaited_sequence(self) -> int | None:
        """The block that must be written back before the checkpoint can continue; None if there is none."""
        return None if self.capture is None else self.capture.sequence

    @property
    def next_number(self) -> int:
        """The number of the first checkpoint of which it is certain that it will contain the present state."""
        return self.number + (1 if self.capture is None else 2)

    def begin(self) -> None:
        """
        Choose block P and capture the state now, before a later row changes it.  The captured state excludes the
        changes made by rows that are only queued (`queued_rows.py`): those rows may be waiting for the space that this
        checkpoint will free.
        """
        assert self.capture is None, "a checkpoint is under way"
        self.capture = CheckpointCapture()
        self.capture_state()

    def begin_again(self) -> None:
        """
        Discard the captured state, so that it is captured again: it may contain batches that have just been truncated
        or trimmed, and so will never be written back.
        """
        if self.capture is not None and not self.capture.is_running:
            self.capture = CheckpointCapture()

    def capture_state(self) -> None:
        capture = self.capture
        assert capture is not None, "no checkpoint is under way"
        queued = queued_rows(self._blocks.rows, self._blocks.votes_before())
        closing = {log.shard_id: log for log in self._removals.closing(self._blocks.rows.control_rows_gathered)}
        for shard_id, closed in self._closed.items():
            if shard_id not in closing:
                capture.sections.append(encode_closed(shard_id, closed))
        for log in [*self._shards.values(), *closing.values()]:
            section = _section_of(log, queued.get(log.shard_id))
            if section is not None:
                capture.sections.append(section)
        capture.sequence, capture.head = self._journal.sequence, self._journal.head

    def steps(self) -> Iterator[None] | None:
        """
        Return the steps of the checkpoint for another thread; call `finished` or `failed` afterwards.  Return None
        until P is durable and written back, and while the steps are running.
        """
        if self.capture is not None and self.capture.sequence is None:
            self.capture_state()
        capture = self.capture
        if capture is None or capture.sequence is None or self._journal.synced < capture.sequence or capture.is_running:
            return None
        write_back = self._write_back
        if not write_back.found_disk_full and not write_back.has_written(capture.sequence):
            return None
        capture.is_running = True
        dirty, capture.directories = self._dirty.take()
        logs = [*self._shards.values(), *self._removals.closing(self._blocks.synced_control_rows)]
        here = {s for log in logs for p in log.partitions.values() for s in p.segments}
        capture.segments = {segment: None for segment in dirty if segment in here}  # the others are being removed
        if write_back.found_disk_full:
            capture.write_back = write_back.take_all()
            # The store keeps the files of captured segments open, so each sync uses the same open file as the write.
            capture.segments |= dict.fromkeys(run.segment for run in capture.write_back.runs)
        return self._execute(capture, [(segment, segment.file) for segment in capture.segments])

    def _execute(self, capture: CheckpointCapture, segments: list[tuple[Segment, File | None]]) -> Iterator[None]:
        """Sync the segments, then the directories, then write the checkpoint's own file (rule C2)."""
        assert capture.sequence is not None and capture.head is not None, "P has not been chosen"
        disk, write_back = self._disk, capture.write_back
        write_back.remove_stale_files(disk)
        for run in write_back.runs:
            write_back_run(disk, run, write_back.changed_directories)
            yield
        for segment, known in segments:
            # A segment that was truncated after the capture is synced, too: its TRUNCATE row may still be lost.
            sync_segment(segment, known)
            if segment.is_closed and segment.on_disk:
                save_index(disk, segment)
            yield
        for directory in dict.fromkeys([*capture.directories, *write_back.changed_directories]):
            if disk.exists(directory):
                disk.sync_directory(directory)
                yield
        number = self.number + 1
        data = encode_checkpoint(self._key, number, capture.sequence, capture.head, capture.sections)
        write_checkpoint(disk, number, data)
        yield

    def finished(self) -> None:
        """Record that the steps have succeeded, and free the journal up to block P."""
        capture = self.capture
        assert capture is not None and capture.sequence is not None, "no checkpoint is under way"
        self.number += 1
        self.sequence = capture.sequence
        if capture.write_back.blocks:
            self._write_back.done(capture.write_back)
            self._write_back.found_disk_full = False
        self._journal.release(capture.sequence)
        self.capture = None

    def failed(self) -> None:
        """
        Record that the steps failed because the disk was full: the journal is not freed, and the next checkpoint
        repeats the work.
        """
        capture = self.capture
        assert capture is not None, "no checkpoint is under way"
        self.capture = None
        write_back = capture.write_back
        self._write_back.put_back(write_back.blocks)
        self._dirty.put_back(capture.segments, capture.directories | dict.fromkeys(write_back.changed_directories))


def _section_of(log: ShardLog, queued: QueuedRows | None) -> bytes | None:
    """
    Return the shard's section of a checkpoint.  While its OPENED row is queued but not in a block yet, that is the
    section of a closed shard if it was open before, and otherwise None.
    """
    if log.changed and log.installing is None:
        log.machines.forget_expired(log.commit_index, log.committed_append_time)
    if queued is not None:
        if not queued.is_opening:
            return encode_shard(log, queued)
        if log.installing is None:
            return None  # the shard was not open before
        before = queued.vote or VoteBefore(log.term, log.voted_for)
        closed = ClosedShard(before.term, before.voted_for, log.last_index, log.term_at(log.last_index))
        return encode_closed(log.shard_id, closed)
    if log.changed:
        log.section = encode_shard(log)
        log.changed = False
    return log.section


def sync_segment(segment: Segment, known: File | None = None) -> None:
    """Sync the segment's file.  `known` is the open file that the segment had when the checkpoint's steps began."""
    file = known or segment.file
    if file is not None:
        file.sync()

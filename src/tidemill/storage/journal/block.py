"""Blocks for the journal, and write-backs of durable blocks to the segments.

The event loop creates both.  One thread writes the blocks, and another one executes the write-backs.  Waiters for a
block are notified when it is durable.  Readers read its bytes from memory until they are written back.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidemill.model.shard import ShardId
from tidemill.raft.entry import Entry
from tidemill.raft.ready import Vote
from tidemill.storage import paths
from tidemill.storage.disk import Buffer, Disk, DiskFull, remove_if_there
from tidemill.storage.journal.journal import Extent, Journal, RingFile, write_block
from tidemill.storage.partition.segment import Segment

IN_FLIGHT_BLOCKS_MAX: Final = 2
"""
The limit for blocks in flight: one that is being written, and one more if it is full, because waiting would not make it
larger.  The second block keeps the journal's thread busy until the event loop has handled the first.
"""


class Report(NamedTuple):
    """
    What a durable block contains for one shard: the newest entry that the shard's log still holds, identified by term
    and index, and the newest vote.  An entry that was truncated while the block was being written does not count, even
    if it was appended again: the TRUNCATE row may precede it on disk (rule J9).
    """

    shard_id: ShardId
    term: int  # the term of the entry
    log_index: int  # 0 when the block holds no entry of the shard
    vote: Vote | None
    is_installing: bool = False  # the block holds an INSTALLING row of the shard


@dataclass(slots=True)
class Run:
    """Consecutive batches of one segment."""

    segment: Segment
    position: int
    parts: list[Buffer]
    end: int
    is_read: bool = True  # readers are expected soon, so the bytes should stay in the page cache
    is_led: bool = True  # this broker leads the shard


@dataclass(slots=True)
class Block:
    sequence: int
    rows: list[tuple[ShardId, Entry]]
    extents: list[Extent]
    joined: RingFile | None
    parts: list[Buffer]
    size: int  # bytes on disk, including the padding
    control_rows_gathered: int  # the number of control rows gathered so far, including this block's
    stale_files: list[str] = field(default_factory=list)  # truncated segments, to be removed before the write-back

    def write(self, journal: Journal) -> None:
        """
        Write the block to the journal and sync it.  Raises SyncFailed; the process must then stop without writing a
        later block.
        """
        journal.check_follows(self.sequence)
        if self.joined is not None:
            journal.join(self.joined)
        write_block(self.extents, self.parts)
        journal.written = self.sequence


@dataclass(slots=True)
class WriteBack:
    """A write-back of several blocks to the segments, with one write for each run of adjacent batches."""

    blocks: list[Block]  # durable, oldest first
    runs: list[Run]
    is_full: bool = False  # the disk was full: the bytes stay in the journal and in memory for a later write-back
    changed_directories: list[str] = field(default_factory=list)

    def execute(self, disk: Disk) -> None:
        """Write the runs to the segments without a sync; a checkpoint syncs them later."""
        self.remove_stale_files(disk)
        try:
            for run in self.runs:
                write_back_run(disk, run, self.changed_directories)
        except DiskFull:
            self.is_full = True

    def remove_stale_files(self, disk: Disk) -> None:
        """
        Remove the stale files, but only once: when a write-back is retried, new files may already have these names.
        """
        for block in self.blocks:
            for path in block.stale_files:
                remove_if_there(disk, path)
                self.changed_directories.append(path.rpartition("/")[0])
            block.stale_files = []


def write_back_run(disk: Disk, run: Run, changed_directories: list[str]) -> None:
    """
    Write a run to its segment's file.  Create the file and its directory if they are missing; then add to
    `changed_directories` the directories that must be synced, so that the name of the file is durable.  Raises
    DiskFull.
    """
    segment = run.segment
    if not segment.on_disk:
        directory = segment.path.rpartition("/")[0]
        disk.make_directory(directory)
        # None of these names need be durable, even if all are there: a process that was killed may have made them, or
        # an index file of a timer topic has needed the directory first.
        changed_directories += [paths.TOPICS, directory.rpartition("/")[0], directory]
    file = segment.file
    if file is None:
        file = segment.file = disk.open(segment.path, create=True)
    segment.on_disk = True
    if run.is_read:
        file.write(run.position, run.parts)
    else:
        file.write_around(run.position, run.parts)

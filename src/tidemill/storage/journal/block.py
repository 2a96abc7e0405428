"""A gathered block on its way to the journal, and the bytes of written blocks on theirs to the segments.

Made by the loop, carried out by two threads of their own.  Whoever waits for a block is answered when it is written;
its bytes are read from memory until they are spread.
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
Blocks on their way to the journal: the one that is written, and behind it a full one, which would not grow by waiting.
Measured at 1 KB, one broker: 15 ± 3 % more than with one, for the thread need not wait until the loop has heard.
"""


class Report(NamedTuple):
    """
    What of a shard is durable when the block is synced: the newest entry in there that the log still holds, by term
    and index, and its newest vote.  One that was cut while the block was written says nothing, though it is there again
    by now: the row that cuts it may be on the disk before it (rule J9).
    """

    shard_id: ShardId
    term: int  # of the entry
    log_index: int  # 0 when the block holds no entry of the shard
    vote: Vote | None
    is_installing: bool = False  # the block says what the files hold as an install begins, or goes on


@dataclass(slots=True)
class Run:
    """Consecutive batches of one segment."""

    segment: Segment
    position: int
    parts: list[Buffer]
    end: int
    is_read: bool = True  # soon, as far as is known
    is_led: bool = True  # here


@dataclass(slots=True)
class Block:
    sequence: int
    rows: list[tuple[ShardId, Entry]]
    extents: list[Extent]
    joined: RingFile | None
    parts: list[Buffer]
    size: int  # on disk
    control_rows_gathered: int  # ever, up to this block
    stale_files: list[str] = field(default_factory=list)  # what truncations in it have left; gone before its bytes come

    def write(self, journal: Journal) -> None:
        """To the journal, durably.  Raises SyncFailed: the process must stop then; no block behind it is written."""
        journal.check_follows(self.sequence)
        if self.joined is not None:
            journal.join(self.joined)
        write_block(self.extents, self.parts)
        journal.written = self.sequence


@dataclass(slots=True)
class WriteBack:
    """What several blocks have for the segments: one write for batches that lie behind each other."""

    blocks: list[Block]  # durable, oldest first
    runs: list[Run]
    is_full: bool = False  # the disk was: the bytes are in the journal and in memory, and go to the segments later
    changed_directories: list[str] = field(default_factory=list)

    def execute(self, disk: Disk) -> None:
        """To the segments, for the most part through the page cache.  A checkpoint syncs them later."""
        self.remove_stale_files(disk)
        try:
            for run in self.runs:
                write_back_run(disk, run, self.changed_directories)
        except DiskFull:
            self.is_full = True

    def remove_stale_files(self, disk: Disk) -> None:
        """Once: a second try of a spread that found the disk full has files of these names by then."""
        for block in self.blocks:
            for path in block.stale_files:
                remove_if_there(disk, path)
                self.changed_directories.append(path.rpartition("/")[0])
            block.stale_files = []


def write_back_run(disk: Disk, run: Run, new_directories: list[str]) -> None:
    segment = run.segment
    file = segment.file
    if file is None:
        directory = segment.path.rpartition("/")[0]
        if not segment.on_disk:
            topic, parent = directory.rpartition("/")[0], paths.TOPICS
            if not disk.exists(directory):
                disk.make_directory(directory)
                new_directories += [parent, topic]
            new_directories.append(directory)
        file = disk.open(segment.path, create=True)
        segment.on_disk = True
        segment.file = file
    if run.is_read:
        file.write(run.position, run.parts)
    else:
        file.write_around(run.position, run.parts)

"""Makes a shard's files match a snapshot: cuts batches that differ, writes missing batches, and syncs everything.

The shard's own `PartitionLog`s are not changed here; they change when the rows of the install are queued.  So the
methods may run off the event loop, one call at a time, while nothing is appended to the shard.

    begin ──▶ INSTALLING is durable ──▶ clean ──▶ write … ──▶ sync ──▶ INSTALLED
      ▲                                                         │
      └────────── a newer snapshot, or many bytes copied ───────┘
"""

from collections.abc import Iterable
from contextlib import suppress

from tidemill.batches.batch import MAGIC, MAGIC_POSITION, BatchHeader, MalformedBatch, crc_matches, spans
from tidemill.raft.entry import BATCH, Entry
from tidemill.storage import paths
from tidemill.storage.disk import Buffer, Disk, DiskFull
from tidemill.storage.journal.block import Run, write_back_run
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.leader_epochs import LeaderEpochs, meeting_offset
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.partition_state import PartitionState
from tidemill.storage.partition.segment import Segment, SegmentDamaged, save_index
from tidemill.storage.partition.tail_cache import TailCache


class SnapshotContradicts(Exception):
    """The committed log of this replica differs from the leader's snapshot.  Nothing was cut."""


class ChunkRefused(ValueError):
    """The chunk does not contain the next batches.  Nothing was written; the install pulls the batches again."""


class InstallCopy:
    """The files of one shard during one or more installs."""

    def __init__(self, disk: Disk, log: ShardLog, high_watermarks: dict[int, int]) -> None:
        """
        All entries of `log` must be durable and written back.  `high_watermarks` maps each partition to the end of the
        records that this replica knows to be committed.  Damaged segments, and all segments after them, are dropped.
        """
        self._disk = disk
        self._high_watermarks = dict(high_watermarks)
        self._theirs: dict[int, PartitionState] = {}
        self._epochs: dict[int, LeaderEpochs] = {}
        self._unwritten: list[Run] = []
        self._unsynced: dict[Segment, None] = {}
        self.bytes_since_sync = 0
        self._logs: dict[int, PartitionLog] = {}
        for number, live in log.partitions.items():
            copy = self._logs[number] = PartitionLog(disk, TailCache(0), live.topic_id, number)
            copy.config = live.config
            copy.restore(live.state())
            damaged_from = log.damaged_from(number)
            if damaged_from is not None and damaged_from < copy.end_offset:
                _keep_whole(copy, damaged_from)
                # The dropped records are committed, and other replicas have them: lower only this replica's watermark.
                self._high_watermarks[number] = min(high_watermarks[number], copy.end_offset)
            self._unsynced |= dict.fromkeys(copy.segments)

    def begin(self, theirs: list[PartitionState]) -> list[PartitionState]:
        """
        Sync the files, cut them down to batches that the snapshot also has, and return the resulting partitions for the
        INSTALLING row.  `theirs` are the snapshot's partitions.  Waits for the disk.  Raises SnapshotContradicts and
        SegmentDamaged.
        """
        if sorted(self._logs) != sorted(state.partition for state in theirs):
            raise SnapshotContradicts(f"the snapshot is of partitions {[it.partition for it in theirs]}")
        self.sync()
        for state in theirs:
            self._theirs[state.partition] = state
            self._epochs[state.partition] = LeaderEpochs(state.epochs)
            self._keep(self._logs[state.partition], state)
        return [log.state() for log in self._logs.values()]

    def _keep(self, ours: PartitionLog, theirs: PartitionState) -> None:
        """
        Cut `ours` where it begins to differ from `theirs` in epoch and offset; empty it if they have nothing in common.
        """
        meeting = meeting_offset(
            [start[:2] for start in ours.epochs.starts],
            ours.end_offset,
            [start[:2] for start in theirs.epochs],
            theirs.end_offset,
        )
        is_empty = meeting is None or meeting <= theirs.log_start
        kept_end = theirs.log_start if meeting is None else max(meeting, theirs.log_start)
        committed = self._high_watermarks[ours.partition]
        if committed > kept_end:
            raise SnapshotContradicts(
                f"{ours.directory} would be cut at offset {kept_end}; what lies before {committed} is committed"
            )
        if is_empty:
            ours.segments = []
        elif kept_end < ours.end_offset:
            segment, position = self._place_of(ours, kept_end)
            cut = Entry(BATCH, b"", partition=ours.partition, base_offset=kept_end)
            cut.segment_base, cut.position = segment.base_offset, position
            ours.truncate(cut)
            if ours.segments and not ours.segments[-1].size:
                ours.segments.pop()
        ours.end_offset = kept_end
        ours.trim(theirs.log_start)
        ours.epochs.starts = [start for start in theirs.epochs if start.start_offset < kept_end]

    def _place_of(self, log: PartitionLog, offset: int) -> tuple[Segment, int]:
        found = log.place_of(offset, may_wait=True)
        assert found is not None, "a look-up that may wait answers"
        segment, position, base_offset = found
        if base_offset != offset:
            raise SegmentDamaged(segment.path, position, offset, "no batch begins with this offset")
        return segment, position

    def clean(self) -> None:
        """
        Remove files that the INSTALLING row does not list, and cut bytes after the ends of segments.  The row must be
        durable.
        """
        disk = self._disk
        for log in self._logs.values():
            known = {segment.base_offset for segment in log.segments}
            grows = max(known, default=None)  # batches will be added to this segment, so its saved index is stale
            for name in disk.list(log.directory):
                base_offset = paths.segment_base(name)
                is_index = name.endswith(".index")
                if base_offset is not None and (base_offset not in known or (is_index and base_offset == grows)):
                    disk.remove(f"{log.directory}/{name}")
            for segment in log.segments:
                file = segment.opened(disk)
                if file.size() > segment.size:
                    file.truncate(segment.size)

    def next_pull(self) -> tuple[int, int] | None:
        """Return the partition and the offset of the next missing batch; None if no batch is missing."""
        for number, log in self._logs.items():
            if log.end_offset < self._theirs[number].end_offset:
                return number, log.end_offset
        return None

    def write(self, number: int, offset: int, chunk: Iterable[Buffer]) -> None:
        """
        Write the batches of a chunk, which start with the batch that contains `offset`.  Raises ChunkRefused and
        DiskFull; after DiskFull, `flush` retries.
        """
        log = self._logs[number]
        batches = [batch for data in chunk for batch in self._checked(log, memoryview(data))]
        if offset != log.end_offset or not batches:
            raise ChunkRefused(f"{len(batches)} batches came for offset {offset}; {log.end_offset} is next")
        for batch, header in self._in_place(log, batches):
            segment, position = log.allocate(len(batch), header.max_timestamp, header.base_offset, header.leader_epoch)
            log.end_offset = header.end_offset
            self._unwritten.append(Run(segment, position, [batch], position + len(batch), is_read=False))
        theirs = self._theirs[number].epochs
        log.epochs.starts = [start for start in theirs if start.start_offset < log.end_offset]
        self.flush()

    def _checked(self, log: PartitionLog, data: memoryview) -> list[memoryview]:
        try:
            found = [data[span.position : span.position + span.size] for span in spans(data)]
        except MalformedBatch as problem:
            raise ChunkRefused(f"{log.directory}: {problem}") from None
        if sum(map(len, found)) != len(data):
            raise ChunkRefused(f"{log.directory}: the last batch is not whole")
        return found

    def _in_place(self, log: PartitionLog, batches: list[memoryview]) -> list[tuple[memoryview, BatchHeader]]:
        """
        Return each batch with its header.  Raises ChunkRefused unless the offsets are dense, the epochs agree with the
        snapshot's epoch table, and the CRCs match.
        """
        epochs, end_offset_max = self._epochs[log.partition], self._theirs[log.partition].end_offset
        expected = log.end_offset
        is_first = not log.segments  # the first batch of a partition may begin below the log start
        placed = []
        for batch in batches:
            (span,) = spans(batch)
            header = span.header
            base_offset, end_offset = header.base_offset, header.end_offset
            is_next = base_offset <= expected < end_offset if is_first else base_offset == expected < end_offset
            epoch, epoch_end = epochs.span_at(expected)
            is_of_epoch = header.leader_epoch == epoch and end_offset <= min(epoch_end, end_offset_max)
            if not (is_next and is_of_epoch and batch[MAGIC_POSITION] == MAGIC and crc_matches(batch)):
                raise ChunkRefused(
                    f"{log.directory}: offsets {base_offset} to {end_offset - 1} of epoch {header.leader_epoch} came, "
                    f"where {expected} of epoch {epoch} is next; or the batch is damaged"
                )
            placed.append((batch, header))
            expected, is_first = end_offset, False
        return placed

    def flush(self) -> None:
        """Write the batches that `write` has accepted.  Raises DiskFull; call it again to retry."""
        while self._unwritten:
            run = self._unwritten[0]
            write_back_run(self._disk, run, [])
            self.bytes_since_sync += len(run.parts[0])
            self._unsynced[run.segment] = None
            del self._unwritten[0]

    def sync(self) -> None:
        """Make all written bytes, and the names of the files, durable.  Waits for the disk."""
        for segment in self._unsynced:
            if segment.size:
                segment.opened(self._disk).sync()
            if segment.is_closed:
                self._save_index(segment)
        self._unsynced.clear()
        self.bytes_since_sync = 0
        directories: dict[str, None] = {}
        for log in self._logs.values():
            if log.segments:
                directories |= dict.fromkeys([log.directory, paths.topic_directory(log.topic_id), paths.TOPICS])
            log.close()
        for directory in directories:
            self._disk.sync_directory(directory)

    def _save_index(self, segment: Segment) -> None:
        with suppress(DiskFull):  # without an index file, the first reader rebuilds the index
            save_index(self._disk, segment)

    def progress(self) -> list[PartitionState]:
        """Return the state of the partitions, as synced so far, for another INSTALLING row."""
        return [log.state() for log in self._logs.values()]

    def result(self) -> list[PartitionState]:
        """
        Return the state of the partitions for the INSTALLED row: this replica's files, with the snapshot's leader
        epochs.
        """
        states = self.progress()
        for state in states:
            theirs = self._theirs[state.partition]
            assert state.end_offset == theirs.end_offset, f"{theirs} is not whole: it ends at {state.end_offset}"
            state.epochs = theirs.epochs
        return states


def _keep_whole(log: PartitionLog, damaged_from: int) -> None:
    """Keep only the segments before the segment that contains `damaged_from`."""
    segments = [segment for segment in log.segments if segment.base_offset <= damaged_from]
    damaged = segments.pop() if segments else None
    log.end_offset = log.log_start if damaged is None else damaged.base_offset
    log.segments = segments
    if segments:
        segments[-1].is_closed = False
    log.epochs.starts = [start for start in log.epochs.starts if start.start_offset < log.end_offset]

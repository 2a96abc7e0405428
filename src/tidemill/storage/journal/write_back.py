"""Write-back: durable blocks are copied to the segments, several blocks at a time, with one write for adjacent batches.

The bytes of a block stay in memory until they are written back.  A write-back never includes batches that were
truncated or trimmed after their blocks were gathered, or whose shard is durably closed.  It includes those of a shard
whose CLOSED row is not durable yet: a checkpoint may have the shard open, and free the blocks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, Entry
from tidemill.storage.journal.block import Block, Run, WriteBack
from tidemill.storage.journal.dirty_files import DirtyFiles
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.segment import Segment


class WriteBackQueue:
    """
    Durable blocks whose bytes are not in the segments yet, and the write-back in flight.  Used only on the event loop.
    """

    def __init__(
        self, shards: Mapping[ShardId, ShardLog], dirty: DirtyFiles, closing: Callable[[], Iterable[ShardLog]]
    ) -> None:
        """`closing` returns the shards whose CLOSED row is not durable yet."""
        self._shards = shards
        self._dirty = dirty
        self._closing = closing
        self._waiting: list[Block] = []  # oldest first
        self._waiting_bytes = 0
        self.running: WriteBack | None = None
        self.found_disk_full = False  # if true, only checkpoints write back, until a checkpoint has succeeded
        # Whether at least half of the bytes of the last write-back belonged to shards that other brokers lead.
        self.mostly_follower_writes = False

    def add(self, block: Block) -> None:
        """Add a block that is durable."""
        self._waiting.append(block)
        self._waiting_bytes += block.size

    def rows(self) -> Iterator[tuple[ShardId, Entry]]:
        """Yield the rows of all blocks that have not been written back yet."""
        for block in self._waiting if self.running is None else [*self.running.blocks, *self._waiting]:
            yield from block.rows

    def next(self, bytes_min: int, awaited_sequence: int | None) -> WriteBack | None:
        """
        Begin a write-back of all waiting blocks.  Return None while a write-back is running, while the disk is full,
        and while fewer than `bytes_min` bytes wait, unless a checkpoint waits for block `awaited_sequence`.
        """
        if self.running is not None or self.found_disk_full or not self._waiting:
            return None
        is_awaited = awaited_sequence is not None and not self.has_written(awaited_sequence)
        if not is_awaited and self._waiting_bytes < bytes_min:
            return None
        self.running = self.take_all()
        return self.running

    def has_written(self, sequence: int) -> bool:
        """Return whether the segments hold the bytes of the durable blocks up to `sequence`."""
        waiting = self.running.blocks if self.running is not None else self._waiting
        return not waiting or waiting[0].sequence > sequence

    def take_all(self) -> WriteBack:
        """Return a write-back of all waiting blocks."""
        blocks, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        runs = self._runs(blocks)
        led = sum(run.end - run.position for run in runs if run.is_led)
        followed = sum(run.end - run.position for run in runs if not run.is_led)
        self.mostly_follower_writes = 0 < followed >= led
        return WriteBack(blocks, runs)

    def _runs(self, blocks: list[Block]) -> list[Run]:
        runs: dict[Segment, Run] = {}
        done: list[Run] = []
        closing = {log.shard_id: log for log in self._closing()}
        for block in blocks:
            for shard_id, entry in block.rows:
                if entry.kind != BATCH:
                    continue
                log = self._shards.get(shard_id) or closing.get(shard_id)
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

    def ended(self, write_back: WriteBack) -> None:
        """Handle the end of the write-back in flight, which has either finished or found the disk full."""
        self.running = None
        self._dirty.add((), write_back.changed_directories)
        if write_back.is_full:
            self.found_disk_full = True
            self.put_back(write_back.blocks)
        else:
            self.done(write_back)

    def done(self, write_back: WriteBack) -> None:
        """Record that the segments hold the bytes of `write_back`, and drop the bytes from memory."""
        for run in write_back.runs:
            run.segment.write_back_done(run.end)
        self._dirty.add((run.segment for run in write_back.runs), ())
        for block in write_back.blocks:
            for _, entry in block.rows:
                if entry.kind == BATCH:
                    entry.payload = entry.header = None

    def put_back(self, blocks: list[Block]) -> None:
        """
        Put back blocks that were not written back, ahead of all others, because files must be written without holes.
        """
        self._waiting = blocks + self._waiting
        self._waiting_bytes += sum(block.size for block in blocks)


def segment_at(log: ShardLog, entry: Entry) -> Segment | None:
    """Return the segment of a batch; None if the segment has been trimmed or truncated."""
    segments = log.partitions[entry.partition].segments
    for segment in reversed(segments):
        if segment.base_offset == entry.segment_base:
            return segment
        if segment.base_offset < entry.segment_base:
            break
    return None

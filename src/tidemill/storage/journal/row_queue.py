"""Rows that wait for the journal, and the order in which they are taken.

Control rows (votes, truncations, openings, closings, trims) are taken before all entries, in their own order: they are
small, may use the ring's reserve (rule J7), and have the same effect if they are written earlier.  Entries and rows of
installs follow in the order of the queue.  If there is no room for the first entry, LOG_START and metadata entries of
other shards may overtake it and use the reserve.  A truncation precedes later entries of its shard.  Entries that it
removes are dropped from the queue if no block holds them yet.
"""

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Final

from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.raft.entry import BATCH, COMMAND, Command, Entry
from tidemill.storage.journal.journal import RESERVE_DIVISOR, Journal
from tidemill.storage.journal.journal_block import HEADER_BYTES, padded
from tidemill.storage.journal.row import ROW_BYTES

LOG_START: Final = int(Command.LOG_START)
# Three quarters of the reserve are for control rows only; LOG_START and metadata entries may use the other quarter.
KEPT_QUARTERS: Final = 3


class RowQueue:
    """
    The waiting rows.  `entries` also holds rows of installs.  Callers that wait for a control row identify it by its
    number.
    """

    __slots__ = (
        "_control_rows",
        "_passed",
        "_waiting",
        "bytes",
        "control_rows_gathered",
        "control_rows_queued",
        "entries",
    )

    def __init__(self) -> None:
        self._control_rows: deque[tuple[ShardId, Entry]] = deque()
        self.entries: list[tuple[ShardId, Entry]] = []
        self._passed = 0  # the number of entries at the start of the queue that were checked and wait for room
        self._waiting: set[ShardId] = set()  # the shards of the entries that were checked and wait for room
        self.bytes = 0  # the size of all rows
        self.control_rows_queued = 0  # the number of the newest queued control row, from 1
        self.control_rows_gathered = 0  # the number of the newest control row that a block holds

    def __bool__(self) -> bool:
        return bool(self._control_rows or self.entries)

    def __iter__(self) -> Iterator[tuple[ShardId, Entry]]:
        return chain(self._control_rows, self.entries)

    def put_control_row(self, shard_id: ShardId, row: Entry) -> None:
        self._control_rows.append((shard_id, row))
        self.control_rows_queued += 1
        self.bytes += ROW_BYTES + row.payload_bytes

    def put(self, shard_id: ShardId, rows: list[Entry]) -> None:
        entries = self.entries
        size = 0
        for row in rows:
            entries.append((shard_id, row))
            size += ROW_BYTES + row.payload_bytes
        self.bytes += size

    def cut(self, shard_id: ShardId, from_index: int) -> bool:
        """
        Drop a shard's queued entries from `from_index` on.  Return whether a block may already contain such entries.
        """
        kept = []
        first: int | None = None
        for shard, row in self.entries:
            if shard == shard_id and row.kind <= COMMAND:
                first = row.index if first is None else first
                if row.index >= from_index:
                    self.bytes -= ROW_BYTES + row.payload_bytes
                    if row.kind == BATCH:
                        row.payload = row.header = None  # no segment will ever need the bytes
                    continue
            kept.append((shard, row))
        self.entries = kept
        self._requeue_passed()
        return first is None or from_index < first

    def drop(self, shard_id: ShardId) -> int | None:
        """
        Drop all queued entries and rows of installs of a shard that is being closed, and return the log index of the
        first entry.  If they were written after its CLOSED row, which overtakes them, recovery could take them for rows
        of a replica that was opened later.
        """
        kept = []
        first: int | None = None
        for shard, row in self.entries:
            if shard != shard_id:
                kept.append((shard, row))
                continue
            self.bytes -= ROW_BYTES + row.payload_bytes
            if row.kind <= COMMAND and first is None:
                first = row.index
            if row.kind == BATCH:
                row.payload = row.header = None  # no segment will ever need the bytes
        self.entries = kept
        self._requeue_passed()
        return first

    def take(self, journal: Journal, bytes_max: int) -> list[tuple[ShardId, Entry]]:
        """
        Take the rows of the next block: as many as fit into `bytes_max` and the ring.  The first row may exceed
        `bytes_max` if it fits into the ring.
        """
        control_rows, entries = self._control_rows, self.entries
        free, room = journal.free, journal.free_for_entries
        free_for_log_starts = free - journal.capacity * KEPT_QUARTERS // (4 * RESERVE_DIVISOR)
        size = HEADER_BYTES
        taken: list[tuple[ShardId, Entry]] = []
        while control_rows:
            grown = size + ROW_BYTES + control_rows[0][1].payload_bytes
            if (taken and grown > bytes_max) or padded(grown) > free:
                break
            size = grown
            taken.append(control_rows.popleft())
        self.control_rows_gathered += len(taken)
        if not control_rows:  # entries must not be written before a waiting truncation
            count = 0
            for _, entry in entries:
                grown = size + ROW_BYTES + entry.payload_bytes
                if (grown > bytes_max and (count or taken)) or (
                    padded(grown) > room and not (_is_log_start(entry) and padded(grown) <= free_for_log_starts)
                ):
                    break
                size = grown
                count += 1
            taken += entries[:count]
            del entries[:count]
            if count:
                self._requeue_passed()
            elif entries and padded(size + ROW_BYTES + entries[0][1].payload_bytes) > room:
                size = self._take_what_frees(taken, size, min(bytes_max, free_for_log_starts))
        self.bytes -= size - HEADER_BYTES
        return taken

    def _take_what_frees(self, taken: list[tuple[ShardId, Entry]], size: int, size_max: int) -> int:
        """
        Add rows that help to free space, although there is no room for an earlier entry: LOG_START and metadata
        entries, except those of shards that have an earlier row waiting.  Return the new size of the block.
        """
        entries, waiting = self.entries, self._waiting
        kept = []
        place = self._passed
        while place < len(entries):
            shard_id, row = entries[place]
            grown = size + ROW_BYTES + row.payload_bytes
            frees = _is_log_start(row) or (shard_id == METADATA_SHARD and row.kind <= COMMAND)
            if not frees or shard_id in waiting:
                waiting.add(shard_id)
                kept.append((shard_id, row))
            elif padded(grown) <= size_max:
                taken.append((shard_id, row))
                size = grown
            else:
                break
            place += 1
        entries[self._passed : place] = kept
        self._passed += len(kept)
        return size

    def _requeue_passed(self) -> None:
        """Make the next `take` that finds no room check all waiting entries again."""
        self._passed = 0
        self._waiting.clear()


def _is_log_start(entry: Entry) -> bool:
    """Return whether the entry is a LOG_START command, which may use the reserve because it frees space."""
    payload = entry.payload
    return entry.kind == COMMAND and bool(payload) and payload[0] == LOG_START  # type: ignore[index]

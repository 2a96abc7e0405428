"""The queue between rows and blocks: the waiting rows, the blocks in flight, and the reports of durable blocks."""

from collections import deque
from collections.abc import Iterator, Mapping

from tidemill.model.shard import ShardId
from tidemill.raft.entry import COMMAND, Entry
from tidemill.raft.ready import Vote
from tidemill.storage.journal.block import Block, Report
from tidemill.storage.journal.journal import Journal
from tidemill.storage.journal.journal_block import HEADER_BYTES, encode_block, padded
from tidemill.storage.journal.queued_rows import VoteBefore
from tidemill.storage.journal.row import RowKind
from tidemill.storage.journal.row_queue import RowQueue
from tidemill.storage.journal.shard_log import ShardLog, read_vote


class BlockQueue:
    """Rows that are not in a block yet, and gathered blocks that are not durable yet.  Used on the event loop only."""

    def __init__(self, key: bytes, journal: Journal, block_bytes_max: int) -> None:
        self._key = key
        self._journal = journal
        self.block_bytes_max = block_bytes_max
        self.rows = RowQueue()
        self.in_flight: deque[Block] = deque()  # oldest first
        self.is_journal_full = False  # the last call of `gather` found no room for waiting entries
        self.synced_control_rows = 0  # the number of the newest control row that is durable
        self._last_was_empty = False
        # The queued votes: (number of the vote's row, shard, the vote that it replaces).
        self._votes_before: deque[tuple[int, ShardId, VoteBefore]] = deque()
        self._stale_files: deque[tuple[int, str]] = deque()  # (number of the row after which to remove it, path)

    def put_vote(self, shard_id: ShardId, row: Entry, before: VoteBefore) -> None:
        """Queue a vote.  `before` is the previous vote, which a checkpoint must contain until `row` is in a block."""
        self.rows.put_control_row(shard_id, row)
        self._votes_before.append((self.rows.control_rows_queued, shard_id, before))

    def drop_files(self, files: list[str]) -> None:
        """
        Schedule the removal of `files` for when all queued control rows are durable, but before any later write-back.
        """
        number = self.rows.control_rows_queued
        self._stale_files += [(number, path) for path in files]

    def votes_before(self) -> Iterator[tuple[ShardId, VoteBefore]]:
        """Yield the shard of each queued vote, and the vote that the queued one replaces, oldest first."""
        for _, shard_id, before in self._votes_before:
            yield shard_id, before

    @property
    def has_full_block(self) -> bool:
        """Whether the queued rows fill a block."""
        return self.rows.bytes >= self.block_bytes_max

    @property
    def is_quiescent(self) -> bool:
        """Whether nothing is queued, and an empty block records that the newest block with rows is synced."""
        return not self.rows and (self._last_was_empty or self._journal.sequence == 0)

    def gather(self, *, empty: bool = False) -> Block | None:
        """
        Gather the next block from the queue.  Return None if nothing is queued, or if the ring has no room until the
        next checkpoint.  `empty`: if no rows are queued, return a block without rows, which advances the synced
        position.
        """
        if not self.rows:
            self.is_journal_full = False
            if not empty or self._last_was_empty or padded(HEADER_BYTES) > self._journal.free:
                return None
            return self._block([])
        waiting = len(self.rows.entries)
        rows = self.rows.take(self._journal, self.block_bytes_max)
        self.is_journal_full = not rows or 0 < len(self.rows.entries) == waiting
        return self._block(rows) if rows else None

    def _block(self, rows: list[tuple[ShardId, Entry]]) -> Block:
        journal = self._journal
        parts, size = encode_block(self._key, journal.sequence + 1, journal.synced, rows)
        extents, joined = journal.reserve(size)
        self._last_was_empty = not rows
        control_rows_gathered = self.rows.control_rows_gathered
        while self._votes_before and self._votes_before[0][0] <= control_rows_gathered:
            self._votes_before.popleft()
        block = Block(journal.sequence, rows, extents, joined, parts, size, control_rows_gathered)
        while self._stale_files and self._stale_files[0][0] <= control_rows_gathered:
            block.stale_files.append(self._stale_files.popleft()[1])
        self.in_flight.append(block)
        return block

    def written(self, block: Block) -> None:
        """Record that `block`, the oldest block in flight, is durable."""
        self._journal.synced = block.sequence
        self.synced_control_rows = block.control_rows_gathered
        self.in_flight.popleft()
        block.parts = []


def reports_of(rows: list[tuple[ShardId, Entry]], shards: Mapping[ShardId, ShardLog]) -> list[Report]:
    """Return a report for each shard that has an entry, a vote or an install row in the durable block of `rows`."""
    newest: dict[ShardId, Entry] = {}
    votes: dict[ShardId, Vote] = {}
    installing: dict[ShardId, None] = {}
    for shard_id, entry in reversed(rows):
        if entry.kind <= COMMAND:
            if shard_id not in newest and (log := shards.get(shard_id)) is not None and log.holds(entry):
                newest[shard_id] = entry
        elif entry.kind == RowKind.VOTE and shard_id not in votes:
            votes[shard_id] = Vote(entry.term, read_vote(entry))
        elif entry.kind == RowKind.INSTALLING:
            installing[shard_id] = None
        elif entry.kind == RowKind.INSTALLED:
            newest.setdefault(shard_id, entry)  # the row has the index and term of the snapshot
    reports = []
    for shard_id in dict.fromkeys([*newest, *votes, *installing]):
        last = newest.get(shard_id)
        term, index = (0, 0) if last is None else (last.term, last.index)
        reports.append(Report(shard_id, term, index, votes.get(shard_id), shard_id in installing))
    return reports

"""Changes of rows that are queued but in no block yet: a checkpoint takes them back out of its state (rule C1).

Rows change a shard's state when they are queued, and may wait long for room in the ring.  A checkpoint that covered
them would wait for them, and they for the checkpoint.  So it covers the newest gathered block, and takes the changes of
later rows back out of what it writes.  Truncations, trims and installs are not taken back: no later row undoes them,
and what they removed may never be written to a file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, COMMAND, Entry
from tidemill.storage.journal.row import RowKind


@dataclass(frozen=True, slots=True)
class VoteBefore:
    """Term and vote before a queued vote."""

    term: int
    voted_for: ReplicaKey | None


@dataclass(slots=True)
class QueuedRows:
    """The queued rows of one shard."""

    first_index: int | None = None  # of the queued entries
    firsts: dict[int, Entry] = field(default_factory=dict)  # partition → its first queued batch
    is_opening: bool = False
    vote: VoteBefore | None = None


def queued_rows(
    pending: Iterable[tuple[ShardId, Entry]], before: Iterable[tuple[ShardId, VoteBefore]]
) -> dict[ShardId, QueuedRows]:
    """Return the queued rows by shard; shards without queued rows are missing."""
    found: dict[ShardId, QueuedRows] = {}
    for shard_id, row in pending:
        queued = found.setdefault(shard_id, QueuedRows())
        if row.kind <= COMMAND and queued.first_index is None:
            queued.first_index = row.index
        if row.kind == BATCH:
            queued.firsts.setdefault(row.partition, row)
        elif row.kind == RowKind.OPENED:
            queued.is_opening = True
    for shard_id, vote in before:
        if found[shard_id].vote is None:
            found[shard_id].vote = vote
    return found

"""What queued rows have changed in memory and not yet in the journal: a checkpoint subtracts it (rule C1).

Rows change a shard's state when they are queued, and may wait long for room in the ring.  A checkpoint that stood for
them would wait with them, and they for it; so it stands for the newest gathered block, and what lies behind is taken
back out of what it writes.  But for what makes less of a log (truncations, settled offsets) and for installs: that is
decided, no later row takes it back, and what it took may never come into a file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, COMMAND, Entry
from tidemill.storage.journal.row import RowKind


@dataclass(frozen=True, slots=True)
class VoteBefore:
    """Term and vote as they were when another vote was queued."""

    term: int
    voted_for: ReplicaKey | None


@dataclass(slots=True)
class QueuedRows:
    """Of one shard."""

    first_index: int | None = None  # of the entries
    firsts: dict[int, Entry] = field(default_factory=dict)  # partition → its first batch
    is_opening: bool = False
    vote: VoteBefore | None = None


def queued_rows(
    pending: Iterable[tuple[ShardId, Entry]], before: Iterable[tuple[ShardId, VoteBefore]]
) -> dict[ShardId, QueuedRows]:
    """By shard; those of which nothing is queued are not in it."""
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

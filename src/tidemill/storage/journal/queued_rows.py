"""Changes made by rows that are queued but not in a block yet: a checkpoint must not contain them (rule C1).

A row changes its shard's state when it is queued, and may wait a long time for space in the ring.  If a checkpoint
covered queued rows, it would wait for these rows while they wait for the space that the checkpoint frees.  So a
checkpoint covers the rows up to the newest gathered block, and reverts the changes of later rows in the state that it
writes.  Truncations, trims and installs are not reverted: no later row undoes them, and the bytes that they removed
might never be written to a file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, COMMAND, Entry
from tidemill.storage.journal.row import RowKind


@dataclass(frozen=True, slots=True)
class VoteBefore:
    """The term and the vote that a queued vote replaces."""

    term: int
    voted_for: ReplicaKey | None


@dataclass(slots=True)
class QueuedRows:
    """The queued rows of one shard."""

    first_index: int | None = None  # the log index of the first queued entry
    firsts: dict[int, Entry] = field(default_factory=dict)  # partition → its first queued batch
    is_opening: bool = False  # the OPENED row is queued
    vote: VoteBefore | None = None  # the term and the vote that the first queued vote replaces


def queued_rows(
    pending: Iterable[tuple[ShardId, Entry]], before: Iterable[tuple[ShardId, VoteBefore]]
) -> dict[ShardId, QueuedRows]:
    """Return the queued rows by shard; shards without queued rows are left out."""
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

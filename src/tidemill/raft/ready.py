"""What a replica asks of its shell, in the order the shell must do it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import Entry
from tidemill.raft.messages import Message, SnapshotChunk, SnapshotOffer, SnapshotPull


@dataclass(slots=True)
class Vote:
    """The newest term this replica knows, and whom it votes for in it.  On disk before anybody hears of it."""

    term: int
    voted_for: ReplicaKey | None


@dataclass(slots=True)
class Ready:
    """
    One turn's work.  All of it may begin at once, and in this order: what a message owes to a sync is a message of a
    later turn.
    """

    vote: Vote | None = None  # to the journal, with
    truncate_from: int | None = None  # the first index that is gone, and
    entries: list[Entry] = field(default_factory=list)  # these, in one sync for all shards
    messages: Sequence[tuple[ReplicaKey, Message]] = ()
    installs: Sequence[ReplicaKey] = ()  # members that an Offer must be sent to; then tell `offered`
    pulls: Sequence[tuple[ReplicaKey, SnapshotPull]] = ()  # to be answered with a Chunk, or a newer Offer
    offer: SnapshotOffer | None = None  # to be installed; what was queued for the log before still belongs to it
    chunks: Sequence[SnapshotChunk] = ()  # of the snapshot that is installed, from its leader

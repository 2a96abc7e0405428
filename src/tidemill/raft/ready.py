"""The work that a replica requests from its host, and its order."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import Entry
from tidemill.raft.messages import Message, SnapshotChunk, SnapshotOffer, SnapshotPull


@dataclass(slots=True)
class Vote:
    """The current term, and the vote in it.  Durable before any message leaves."""

    term: int
    voted_for: ReplicaKey | None


@dataclass(slots=True)
class Ready:
    """
    One turn's work, in the order in which the host must begin it.  Nothing in it waits for a sync of the same turn: a
    message that depends on a sync is returned by a later `ready`.
    """

    vote: Vote | None = None  # goes to the journal,
    truncate_from: int | None = None  # with the first index that is truncated,
    entries: list[Entry] = field(default_factory=list)  # and then these, in one sync for all shards
    messages: Sequence[tuple[ReplicaKey, Message]] = ()
    installs: Sequence[ReplicaKey] = ()  # members to offer a snapshot to; then call `Replica.offered`
    pulls: Sequence[tuple[ReplicaKey, SnapshotPull]] = ()  # requests to answer with a chunk, or with a newer offer
    offer: SnapshotOffer | None = None  # a snapshot to install; rows queued before it still belong to the log
    chunks: Sequence[SnapshotChunk] = ()  # of the snapshot that is being installed

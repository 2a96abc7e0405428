"""The work that a replica asks its host to do, and the order in which the host must do it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import Entry
from tidemill.raft.messages import Message, SnapshotChunk, SnapshotOffer, SnapshotPull


@dataclass(slots=True)
class Vote:
    """The current term, and the vote in it.  Both must be durable before any message is sent."""

    term: int
    voted_for: ReplicaKey | None


@dataclass(slots=True)
class Ready:
    """
    One turn's work, in the order in which the host must begin it.  No part of it waits for a sync of the same turn: a
    message that depends on a sync is returned by a later `ready`.

    The vote, the truncation and the entries go to the journal, where one sync makes them durable for all shards.
    """

    vote: Vote | None = None  # the new term and vote; None: unchanged
    truncate_from: int | None = None  # the first index to remove; None: truncate nothing
    entries: list[Entry] = field(default_factory=list)  # to append after the truncation
    messages: Sequence[tuple[ReplicaKey, Message]] = ()
    installs: Sequence[ReplicaKey] = ()  # members that need a snapshot offer; then call `Replica.offered`
    pulls: Sequence[tuple[ReplicaKey, SnapshotPull]] = ()  # requests to answer with a chunk, or with a newer offer
    offer: SnapshotOffer | None = None  # a snapshot to install; rows queued before it still belong to the log
    chunks: Sequence[SnapshotChunk] = ()  # parts of the snapshot that is being installed

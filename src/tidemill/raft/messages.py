"""The messages between the replicas of one shard.  The envelope names sender, receiver and shard; each has a term.

    candidate ──▶ voters        VoteRequest      ◀── VoteResponse
    leader ─────▶ members       AppendEntries    ◀── AppendEntriesResponse
    leader ─────▶ voter         TimeoutNow: campaign at once
    leader ─────▶ member        SnapshotOffer, when the member's next entry is not in the leader's memory any more
    member ─────▶ leader        SnapshotPull: bytes of one partition, from an offset on    ◀── SnapshotChunk
    member ─────▶ leader        AppendEntriesResponse: the snapshot is durable
    damaged ────▶ members       Damaged: do not count me, and offer me a snapshot if you lead

A response promises only what is durable at its sender when it is sent.
"""

from dataclasses import dataclass, field

from tidemill.raft.entry import Buffer, Entry
from tidemill.raft.voters import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    term: int  # the term of the election; a pre-vote names the next term without beginning it
    last_index: int
    last_term: int
    is_pre: bool = False
    is_transfer: bool = False  # the leader asked for this election, to transfer leadership


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    term: int  # the sender's own; for a granted pre-vote, the term that was asked about
    is_granted: bool
    is_pre: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEntries:
    term: int
    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...] = field(repr=False, default=())
    commit_index: int  # at most `prev_index` + entries: beyond that the logs may differ
    serial: int = 0  # the leader's newest read index round; the response repeats it


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEntriesResponse:
    term: int
    serial: int = 0
    match_index: int = 0  # the log matches the leader's up to here, and is durable
    commit_index: int = 0
    rejected_index: int = 0  # the `prev_index` that did not match; 0: accepted
    hint_index: int = 0  # after a rejection, the last index that may match,
    hint_term: int = 0  # and the term of the entry there
    is_installing: bool = False  # a snapshot is being installed; until then no entry is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutNow:
    """The receiver shall campaign at once, without a pre-vote: the leader of `term` transfers leadership to it."""

    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """The sender has lost entries that it may have acknowledged.  Repeated until it is repaired."""

    term: int
    last_index: int  # of the last entry it may have acknowledged: only a snapshot that reaches it repairs the sender
    last_term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOffer:
    """A snapshot: the state that the committed log up to `index` has built, without the bytes of its batches."""

    term: int
    index: int
    index_term: int
    append_time: int  # of the entry at `index`
    membership: Membership  # in force at `index`
    state: Buffer = field(repr=False)  # opaque here: the state of partitions and of shard state machines


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPull:
    """A request for batches of a snapshot.  The member repeats it, so that loss, delay and duplication do no harm."""

    term: int
    index: int  # the snapshot's
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChunk:
    """Whole batches of a snapshot, beginning with the one that holds `offset`."""

    term: int
    index: int
    partition: int
    offset: int
    payload: tuple[Buffer, ...] = field(repr=False)


Message = (
    VoteRequest
    | VoteResponse
    | AppendEntries
    | AppendEntriesResponse
    | TimeoutNow
    | Damaged
    | SnapshotOffer
    | SnapshotPull
    | SnapshotChunk
)

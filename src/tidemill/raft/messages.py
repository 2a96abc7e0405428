"""The messages between the replicas of one shard.  The envelope contains the sender, the receiver and the shard; every
message has a term.

    candidate ──▶ voters        VoteRequest      ◀── VoteResponse
    leader ─────▶ members       AppendEntries    ◀── AppendEntriesResponse
    leader ─────▶ voter         TimeoutNow: campaign immediately
    leader ─────▶ member        SnapshotOffer, when the member's next entry is no longer in the leader's memory
    member ─────▶ leader        SnapshotPull: request batches of one partition, from an offset    ◀── SnapshotChunk
    member ─────▶ leader        AppendEntriesResponse: the snapshot is durable
    damaged ────▶ members       Damaged: do not count the sender; the leader must offer it a snapshot
    replica ────▶ leader        ReleaseRequest: is the sender still a member?    ◀── Released: it is not

A response promises only what is already durable on its sender's disk.
"""

from dataclasses import dataclass, field

from tidemill.raft.entry import Buffer, Entry
from tidemill.raft.voters import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    term: int  # the term of the election; a pre-vote specifies the next term without starting it
    last_index: int
    last_term: int
    is_pre: bool = False
    is_transfer: bool = False  # the leader asked for this election, to transfer leadership


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    term: int  # the sender's term; for a granted pre-vote, the term in the request
    is_granted: bool
    is_pre: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEntries:
    term: int
    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...] = field(repr=False, default=())
    commit_index: int  # at most the index of the message's last entry: after it, the logs may differ
    serial: int = 0  # the leader's newest read index round; the response repeats it


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEntriesResponse:
    term: int
    serial: int = 0
    match_index: int = 0  # the sender's durable log matches the leader's up to this index
    commit_index: int = 0
    rejected_index: int = 0  # the `prev_index` that did not match; 0 if the message was accepted
    hint_index: int = 0  # after a rejection, the last index that may match
    hint_term: int = 0  # the term of the entry at `hint_index`
    is_installing: bool = False  # the sender is installing a snapshot, and takes no entries until it has finished


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutNow:
    """The leader of `term` is transferring leadership: the receiver must campaign immediately, without a pre-vote."""

    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """The sender has lost entries that it may have acknowledged.  It repeats this message until it is repaired."""

    term: int
    last_index: int  # the last entry that the sender may have acknowledged; the repairing snapshot must reach it
    last_term: int  # the term of that entry


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """The plan no longer names the sender.  It repeats this message until it is released, or planned again."""

    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The receiver is not a member, by the committed membership that is in force on the confirmed leader of `term`."""

    term: int
    index: int  # the log index from which that membership is in force


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOffer:
    """An offer of a snapshot: the state built by the committed log up to `index`, without the bytes of its batches."""

    term: int
    index: int
    index_term: int
    append_time: int  # the append time of the entry at `index`
    membership: Membership  # the membership in force at `index`
    state: Buffer = field(repr=False)  # opaque here: the state of partitions and of shard state machines


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPull:
    """
    A request for batches of a snapshot.  The member repeats the request until it receives the batches, so a lost
    message is harmless.
    """

    term: int
    index: int  # the snapshot's index
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChunk:
    """Complete batches of a snapshot, starting with the batch that contains `offset`."""

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
    | ReleaseRequest
    | Released
    | SnapshotOffer
    | SnapshotPull
    | SnapshotChunk
)

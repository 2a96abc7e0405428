"""What replicas of one shard tell each other.  Sender, receiver and shard stand on the envelope, a term in each one.

    a candidate      VoteRequest ─▶ everyone     VoteAnswer ─▶ it
    a leader         Append ─▶ everyone          AppendAnswer ─▶ it
                     Depose: stand for election now, before anybody misses me
                     Offer ─▶ a member whose next entry is gone here: a snapshot
    that member      Pull ─▶ it: bytes of one partition, from an offset on          Chunk ─▶ the member
                     AppendAnswer ─▶ it: the snapshot is on disk
    a damaged one    Damaged ─▶ everyone: count me nowhere; whoever leads, offer me a snapshot

No message owes anything to a later sync: whoever answers has on disk what he answers for.
"""

from dataclasses import dataclass, field

from tidemill.raft.entry import Buffer, Entry
from tidemill.raft.voters import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    term: int  # that the sender stands for; a pre-vote asks for it without having begun it
    last_index: int
    last_term: int
    is_pre: bool = False
    is_transfer: bool = False  # the leader itself has asked for this election


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    term: int  # of a granted pre-vote the one that was asked about, else the receiver's own
    is_granted: bool
    is_pre: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEntries:
    term: int
    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...] = field(repr=False, default=())
    commit_index: int  # never above `prev_index` + entries: only that is known to be alike
    serial: int = 0  # of the newest question whether the sender still leads; the answer repeats it


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEntriesResponse:
    term: int
    serial: int = 0
    match_index: int = 0  # alike with the leader's log up to here, and on disk
    commit_index: int = 0
    rejected_index: int = 0  # the `prev_index` that did not match; 0: accepted
    hint_index: int = 0  # of a rejection: the last index that may match,
    hint_term: int = 0  #   and the term of the entry there
    is_installing: bool = False  # nothing is alike, and no entry is taken, before an install has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutNow:
    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """The sender has lost of what it answered for; said again and again until it has been repaired."""

    term: int
    last_index: int  # of what it can have answered for: a snapshot before that does not repair it
    last_term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOffer:
    """A snapshot: everything that the committed log up to `index` has built, but for the bytes of its batches."""

    term: int
    index: int
    index_term: int
    append_time: int  # of the newest entry in it
    membership: Membership  # in force at `index`
    partitions: Buffer = field(repr=False)  # opaque here; `storage/partition/partition_state.py`


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPull:
    """Asked again until it is answered, by whoever installs: so nothing that is lost, late or double does harm."""

    term: int
    index: int  # of the snapshot
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChunk:
    """Whole batches, from the one that holds `offset` on, none beyond the snapshot."""

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

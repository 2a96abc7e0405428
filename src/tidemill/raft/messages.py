"""What replicas of one shard tell each other.  Sender, receiver and shard stand on the envelope, a term in each one.

    a candidate      VoteRequest ─▶ everyone     VoteAnswer ─▶ it
    a leader         Append ─▶ everyone          AppendAnswer ─▶ it
                     Depose: stand for election now, before anybody misses me

No message owes anything to a later sync: whoever answers has on disk what he answers for.
"""

from dataclasses import dataclass, field

from tidemill.raft.entry import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    term: int  # that the sender stands for; a pre-vote asks for it without having begun it
    last_index: int
    last_term: int
    is_pre: bool = False
    is_transfer: bool = False  # the leader itself has asked for this election


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer:
    term: int  # of a granted pre-vote the one that was asked about, else the receiver's own
    is_granted: bool
    is_pre: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    term: int
    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...] = field(repr=False, default=())
    commit_index: int  # never above `prev_index` + entries: only that is known to be alike
    serial: int = 0  # of the newest question whether the sender still leads; the answer repeats it


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAnswer:
    term: int
    serial: int = 0
    match_index: int = 0  # alike with the leader's log up to here, and on disk
    commit_index: int = 0
    rejected_index: int = 0  # the `prev_index` that did not match; 0: accepted
    hint_index: int = 0  # of a rejection: the last index that may match,
    hint_term: int = 0  #   and the term of the entry there


@dataclass(frozen=True, slots=True, kw_only=True)
class Depose:
    term: int


Message = VoteRequest | VoteAnswer | Append | AppendAnswer | Depose

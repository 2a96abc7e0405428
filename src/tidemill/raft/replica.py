"""Replica: one voter's part of one replicated log, pure.  Ongaro & Ousterhout 2014, and Ongaro's thesis for what that
leaves out.

Five verbs: `receive` and `tick` take what happens outside, `propose` takes a leader's new entries, `ready` hands out
what the shell must do (`raft/ready.py` says in which order), `advance` tells what of it is durable.

What must hold:
- A term and a vote are durable before anybody hears of them; a single voter leads only then.
- The leader counts itself where its own journal has synced, never further.
- Only entries of the leader's own term commit by counting; what lies before them commits with them.
- A report of durability names the term in which the work was handed out; one of an older term is ignored.

Between brokers there is nothing yet: a replica whose shard has other voters than itself refuses to start.
"""

from enum import StrEnum

from tidemill.model.broker_id import Voter
from tidemill.raft.entry import Entry, no_op
from tidemill.raft.log_view import LogView
from tidemill.raft.ready import Message, Ready, Vote


class Role(StrEnum):
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Replica:
    """Indexes and terms count from 1; 0 stands for "before the log"."""

    __slots__ = (
        "_entries",
        "_now_ms",
        "_vote_changed",
        "_vote_durable",
        "commit_index",
        "durable_index",
        "last_index",
        "last_term",
        "me",
        "role",
        "term",
        "term_start_index",
        "voted_for",
        "voters",
    )

    def __init__(
        self,
        *,
        me: Voter,
        voters: tuple[Voter, ...],
        term: int,
        voted_for: Voter | None,
        log: LogView,
        commit_index: int,
    ) -> None:
        if voters != (me,):
            raise ValueError(
                f"voters {voters}: replication between brokers is not built yet; only {me} alone can be opened"
            )
        self.me = me
        self.voters = voters
        self.role = Role.FOLLOWER
        self.term = term
        self.voted_for = voted_for
        self.last_index = log.last_index
        self.last_term = log.term_at(log.last_index)
        self.durable_index = log.last_index  # recovery has synced what it found
        self.commit_index = commit_index
        self.term_start_index = 0  # the index of the first entry of the term that this replica leads
        self._entries: list[Entry] = []  # proposed, not yet handed out
        self._vote_changed = False
        self._vote_durable = True
        self._now_ms = 0

    @property
    def leads(self) -> bool:
        """Elected; whether its reign is confirmed says `is_confirmed`."""
        return self.role is Role.LEADER

    @property
    def is_confirmed(self) -> bool:
        """An entry of this leader's own term has committed: only now may it answer for the log."""
        return self.role is Role.LEADER and self.commit_index >= self.term_start_index

    @property
    def has_ready(self) -> bool:
        return bool(self._entries) or self._vote_changed

    def tick(self, now_ms: int) -> None:
        """Time has come to `now_ms` (wall clock, for append times).  A voter without a leader stands for election."""
        self._now_ms = now_ms
        if self.role is Role.FOLLOWER:
            self._campaign()

    def receive(self, message: Message) -> None:
        raise ValueError(f"{message!r} came from a peer, but this replica is its shard's only voter")

    def propose(self, entry: Entry) -> int:
        """Append to the log of the term that this replica leads; the entry's index.  Only a leader may be asked."""
        assert self.role is Role.LEADER, f"proposed to a {self.role}"
        self.last_index = index = self.last_index + 1
        entry.index = index
        entry.term = self.last_term = self.term
        self._entries.append(entry)
        return index

    def ready(self) -> Ready:
        """What has to be done now; handed out once."""
        entries, self._entries = self._entries, []
        vote = None
        if self._vote_changed:
            self._vote_changed = False
            vote = Vote(self.term, self.voted_for)
        return Ready(vote=vote, entries=entries)

    def advance(self, term: int, index: int, *, vote_durable: bool = False) -> bool:
        """
        What was handed out while `term` was current is durable up to `index`.  Returns whether the commit index moved
        or this replica became leader.
        """
        if term != self.term:
            return False
        if vote_durable and not self._vote_durable:
            self._vote_durable = True
            self._lead()
            return True
        if index > self.durable_index:
            self.durable_index = index
        return self._commit()

    def _campaign(self) -> None:
        """A single voter is elected by its own vote, once that is durable."""
        self.role = Role.CANDIDATE
        self.term += 1
        self.voted_for = self.me
        self._vote_changed = True
        self._vote_durable = False

    def _lead(self) -> None:
        self.role = Role.LEADER
        self.term_start_index = self.last_index + 1
        self.propose(no_op(self._now_ms))

    def _commit(self) -> bool:
        """A majority of one: what is durable here, if it is of this term."""
        committed = self.durable_index
        if committed <= self.commit_index or committed < self.term_start_index or self.role is not Role.LEADER:
            return False
        self.commit_index = committed
        return True

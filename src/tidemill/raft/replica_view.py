"""The read-only side of a replica: its state, as the host and reports see it.

`raft/replica.py` extends this view with the five verbs.  `status()` returns a value for reports; the properties cost
less, and the host reads them in every turn of the event loop.
"""

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.elections import Elections
from tidemill.raft.follower import Follower
from tidemill.raft.leadership_transfer import LeadershipTransfer
from tidemill.raft.messages import Message
from tidemill.raft.open_log import OpenLog
from tidemill.raft.progress_tracker import ProgressTracker
from tidemill.raft.repair import Repair
from tidemill.raft.role import Role
from tidemill.raft.status import ReplicaStatus
from tidemill.raft.voters import Membership


class ReplicaView:
    """The read-only properties of a replica.  Indexes and terms count from 1; 0 means "before the log"."""

    __slots__ = (
        "_elections",
        "_follower",
        "_leadership_transfer",
        "_log",
        "_outbox",
        "_repair",
        "_tracker",
        "me",
        "term_start_index",
    )

    me: ReplicaKey
    _tracker: ProgressTracker | None  # set while this replica leads
    term_start_index: int  # the index of the first entry of the last term that this replica led
    _elections: Elections
    _follower: Follower
    _leadership_transfer: LeadershipTransfer
    _log: OpenLog
    _outbox: list[tuple[ReplicaKey, Message]]
    _repair: Repair

    @property
    def role(self) -> Role:
        return self._elections.role

    @property
    def term(self) -> int:
        return self._elections.term

    @property
    def voted_for(self) -> ReplicaKey | None:
        return self._elections.voted_for

    @property
    def leader(self) -> ReplicaKey | None:
        """The leader of `term`, as far as this replica knows."""
        return self._elections.leader

    @property
    def voters(self) -> tuple[ReplicaKey, ...]:
        return self._log.memberships.current.voters

    @property
    def membership(self) -> Membership:
        """The membership in force, committed or not."""
        return self._log.memberships.current

    @property
    def membership_index(self) -> int:
        """The log index from which the membership is in force; 0 if that was before the last start of this broker."""
        return self._log.memberships.changed_at

    @property
    def installing(self) -> tuple[int, int] | None:
        """The index and term of the snapshot that is being installed; None if there is none."""
        return self._repair.snapshot

    @property
    def is_damaged(self) -> bool:
        return self._repair.is_damaged

    @property
    def last_index(self) -> int:
        return self._log.last_index

    @property
    def durable_index(self) -> int:
        """The index up to which all entries are on this replica's disk."""
        return self._log.durable_index

    @property
    def commit_index(self) -> int:
        return self._log.commit_index

    @property
    def match_index(self) -> int:
        """The index up to which the log is known to match the leader's, while this replica follows."""
        return self._follower.match_index

    @property
    def stable_index(self) -> int:
        """
        The index up to which entries are committed, and durable on this replica's disk: they may be applied, served and
        removed.
        """
        log = self._log  # computed inline instead of by `log.stable_index`, because every produce and fetch reads it
        committed, durable = log.commit_index, log.durable_index
        return committed if committed < durable else durable

    @property
    def leads(self) -> bool:
        """Whether this replica has been elected; `is_confirmed` says whether it may serve."""
        return self._elections.role is Role.LEADER

    @property
    def is_confirmed(self) -> bool:
        """
        Whether this leader may serve: an entry of its own term is committed, and durable on its own disk.  The peers
        can commit that entry before it is durable here; until it is, this leader must not apply it.
        """
        return self._elections.role is Role.LEADER and self._log.stable_index >= self.term_start_index

    @property
    def may_propose(self) -> bool:
        """Whether this replica leads and no leadership transfer is under way: new entries would delay a transfer."""
        return self._elections.role is Role.LEADER and self._leadership_transfer.target is None

    @property
    def transfer_target(self) -> ReplicaKey | None:
        """The target of the leadership transfer that is under way; None if there is none."""
        return self._leadership_transfer.target

    @property
    def read_index_round(self) -> int:
        """The newest read index round that a majority has confirmed; 0 while this replica does not lead."""
        if self._tracker is None:
            return 0
        return self._tracker.read_index_round(self.voters)

    @property
    def has_ready(self) -> bool:
        """Whether `ready` would return any work."""
        elections, repair = self._elections, self._repair
        if self._log.has_changed or elections.is_vote_changed or repair.offer is not None or repair.chunks:
            return True
        if self._outbox and elections.is_vote_durable:
            return True
        return self._tracker is not None and bool(self._tracker.members)

    def needed_index(self, absent_ms_max: int) -> int:
        """
        Return the index of the first entry that may still have to be sent to a live member, or to one that has been
        absent for less than `absent_ms_max`.
        """
        if self._tracker is None:
            return self._log.last_index + 1
        return self._tracker.needed_index(self._elections.is_alive, absent_ms_max)

    @property
    def needs_tick(self) -> bool:
        """Whether a tick may make this replica act even if the liveness of its peers has not changed."""
        if self._elections.role is not Role.LEADER:
            return self._repair.is_damaged or not self._elections.is_led()
        assert self._tracker is not None, "a leader replicates"
        if self._leadership_transfer.target is not None or self.stable_index < self._log.last_index:
            return True
        return self._tracker.waits_for_answers(self.commit_index, self._elections.is_alive)

    @property
    def matches(self) -> dict[ReplicaKey, int]:
        """The match index of each other member that is not damaged; empty while this replica does not lead."""
        return {} if self._tracker is None else self._tracker.matches

    def status(self) -> ReplicaStatus:
        """Return this replica's current state, and the progress of the other members while it leads."""
        return ReplicaStatus(
            role=self._elections.role,
            term=self._elections.term,
            leader=self._elections.leader,
            membership=self._log.memberships.current,
            last_index=self._log.last_index,
            durable_index=self.durable_index,
            commit_index=self.commit_index,
            members={} if self._tracker is None else self._tracker.status(),
        )

    def replicated_index(self, voter_count: int) -> int:
        """
        Return the index of the last entry that is stable on this replica and durable on `voter_count` voters; 0 if
        there are fewer voters, or if this replica does not lead.  `voter_count` may exceed a majority.
        """
        if self._tracker is None:
            return 0
        log = self._log
        return min(self._tracker.replicated_index(self.voters, log.durable_index, voter_count), log.stable_index)

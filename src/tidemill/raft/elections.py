"""Elections: the current term, this replica's vote in it, and its leader, as one replica sees them.

Ongaro & Ousterhout 2014 §5.2 and §5.4.1; Ongaro's thesis §9.6 for the pre-vote and §4.2.3 for refusing to disturb a
live leader.

    pre-vote   Asks whether a voter would vote for the candidate in the next term.  A voter grants it if the candidate's
               log is up to date and the voter knows no live leader.  No term changes.
    vote       A voter grants one vote per term, first come first served, if the candidate's log is up to date.

Invariants:
- `is_vote_durable` is false from the moment the term or the vote changes until the journal has synced the change.
  Until then, `Replica` holds back every message, so that no peer learns of a term or a vote that a crash could make
  this replica forget.
- A candidate counts its own vote only once the vote is durable, just as other voters answer only after a sync.
- A replica with a live leader grants no vote, whatever the term, unless that leader asked for the election
  (`is_transfer`).  Instead, the replica asks the leader whether it still leads: the leader may have stepped down, and
  the message that would have shown this may have been lost.
"""

from collections.abc import Callable

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.election import Election
from tidemill.raft.election_timer import ElectionTimer
from tidemill.raft.messages import Message, VoteRequest, VoteResponse
from tidemill.raft.open_log import OpenLog
from tidemill.raft.ready import Vote
from tidemill.raft.role import Role

Alive = Callable[[ReplicaKey], bool]


def none_alive(_: ReplicaKey) -> bool:
    """Return False: before the first tick, no peer is known to be alive."""
    return False


class Elections:
    __slots__ = (
        "_became_follower",
        "_became_leader",
        "_election",
        "_log",
        "_me",
        "_outbox",
        "_timer",
        "is_alive",
        "is_vote_changed",
        "is_vote_durable",
        "leader",
        "role",
        "term",
        "voted_for",
    )

    def __init__(
        self,
        *,
        me: ReplicaKey,
        term: int,
        voted_for: ReplicaKey | None,
        log: OpenLog,
        jitter_ms: Callable[[], int],
        outbox: list[tuple[ReplicaKey, Message]],
        became_follower: Callable[[bool], None],
        became_leader: Callable[[], None],
    ) -> None:
        """
        Messages are added to `outbox`, whose owner holds them back until the vote is durable.  `became_follower` is
        called whenever this replica becomes a follower or adopts a leader; its argument is true if the role or the
        leader has changed, or if no leader is known.
        """
        self.role = Role.FOLLOWER
        self.term = term
        self.voted_for = voted_for
        self.leader: ReplicaKey | None = None  # the leader of `term`, as far as this replica knows
        self.is_vote_changed = False  # whether the term or the vote has changed since the last `take_vote`
        self.is_vote_durable = True
        self.is_alive: Alive = none_alive  # returns whether a peer is alive, as of the last tick
        self._me = me
        self._log = log
        self._outbox = outbox
        self._became_follower = became_follower
        self._became_leader = became_leader
        self._election: Election | None = None
        self._timer = ElectionTimer(jitter_ms)

    def is_led(self) -> bool:
        """Return whether this replica knows of a live leader, which may be itself."""
        if self.role is Role.LEADER:
            return True
        return self.leader in self._log.memberships.current.voters and self.is_alive(self.leader)

    def leader_is_alive(self) -> None:
        """Handle a tick while the leader is alive."""
        self._timer.leader_is_alive()

    def tick(self, now_ms: int) -> None:
        """Handle a tick while no live voter leads: campaign if the timer has expired."""
        is_only_voter = len(self._log.memberships.current.voters) == 1
        is_leader_leaving = self.leader is not None and self.is_alive(self.leader)
        if self._timer.is_due(now_ms, is_only_voter=is_only_voter, is_leader_leaving=is_leader_leaving):
            self.campaign(is_transfer=False)

    # Methods for campaigns of this replica.

    def campaign(self, *, is_transfer: bool) -> None:
        """Start a pre-vote, or an election if this replica is the only voter or the target of a leadership transfer."""
        self._timer.attempted()
        self.leader = None
        if is_transfer or len(self._log.memberships.current.voters) == 1:
            self._become_candidate(is_transfer=is_transfer)
            return
        self.role = Role.PRE_CANDIDATE
        self._election = Election(self._me, is_pre=True)
        self._request_votes(self._election, self.term + 1)

    def _become_candidate(self, *, is_transfer: bool) -> None:
        self.role = Role.CANDIDATE
        self._election = Election(self._me, is_pre=False, is_transfer=is_transfer)
        self._set_vote(self.term + 1, self._me)
        self._request_votes(self._election, self.term)

    def _request_votes(self, election: Election, term: int) -> None:
        request = self._vote_request(term, is_pre=election.is_pre, is_transfer=election.is_transfer)
        for voter in self._log.memberships.current.voters:
            if voter != self._me:
                self._outbox.append((voter, request))

    def _vote_request(self, term: int, *, is_pre: bool, is_transfer: bool) -> VoteRequest:
        log = self._log
        return VoteRequest(
            term=term, last_index=log.last_index, last_term=log.last_term, is_pre=is_pre, is_transfer=is_transfer
        )

    def _decide(self) -> None:
        """End the election or the pre-vote if the votes counted so far decide it."""
        election, voters = self._election, self._log.memberships.current.voters
        if election is None:
            return
        if election.is_won(voters):
            if election.is_pre:
                self._become_candidate(is_transfer=False)
            else:
                self._win()
        elif election.is_lost(voters):
            self._step_back(None)

    def _win(self) -> None:
        self.role = Role.LEADER
        self.leader = self._me
        self._election = None
        self._became_leader()

    # Methods that make this replica a follower.

    def follow(self, term: int, leader: ReplicaKey | None) -> None:
        """Become a follower of `leader` (None if it is not known yet), and restart the election timer."""
        if term > self.term:
            self._set_vote(term, None)
        self._step_back(leader)
        self._timer.reset()

    def _step_back(self, leader: ReplicaKey | None) -> None:
        """
        Become a follower without restarting the timer, so that a losing candidate campaigns again when it expires.
        """
        is_new = leader is None or leader != self.leader or self.role is not Role.FOLLOWER
        self.role = Role.FOLLOWER
        self.leader = leader
        self._election = None
        self._became_follower(is_new)

    def observe_term(self, message: Message) -> None:
        """
        Adopt the higher term of `message`, unless it requests or grants a pre-vote, or requests a vote despite a live
        leader.
        """
        if isinstance(message, VoteRequest):
            may_ignore = message.is_pre or (self.is_led() and not message.is_transfer)
        else:  # a granted pre-vote contains the next term, which has not begun
            may_ignore = isinstance(message, VoteResponse) and message.is_pre and message.is_granted
        if not may_ignore:
            self.follow(message.term, None)

    # Methods that handle requests for votes and answers to them.

    def on_vote_request(self, sender: ReplicaKey, request: VoteRequest, *, may_grant: bool) -> None:
        """
        Grant or refuse a vote.  `may_grant` is false for a damaged replica, which cannot judge whether the candidate's
        log is up to date.
        """
        log = self._log
        if sender == self.leader:
            self.leader = None  # a leader that requests votes has stepped down or restarted
        is_up_to_date = (request.last_term, request.last_index) >= (log.last_term, log.last_index)
        may_change = not self.is_led() or request.is_transfer
        if not may_change and self.role is Role.FOLLOWER:
            self._question_leader()
        if not may_grant:
            self._answer(sender, term=self.term, is_granted=False, is_pre=request.is_pre)
        elif request.is_pre:
            is_granted = request.term > self.term and is_up_to_date and may_change
            self._answer(sender, term=request.term if is_granted else self.term, is_granted=is_granted, is_pre=True)
            if is_granted and self.role is Role.PRE_CANDIDATE and self._yields_to(sender):
                self._step_back(None)
        elif request.term == self.term and is_up_to_date and self._is_free_for(sender):
            if self.voted_for is None:
                self._set_vote(self.term, sender)
                self._timer.voted()
            self._answer(sender, term=self.term, is_granted=True, is_pre=False)
        elif request.term <= self.term:
            self._answer(sender, term=self.term, is_granted=False, is_pre=False)

    def _is_free_for(self, candidate: ReplicaKey) -> bool:
        return self.voted_for in (None, candidate) and self.leader in (None, candidate)

    def _yields_to(self, other: ReplicaKey) -> bool:
        """
        Return whether this pre-candidate gives way to the pre-candidate `other`: two elections at once would split the
        votes, so only the replica that is listed first among the voters continues.
        """
        me, voters = self._me, self._log.memberships.current.voters
        return other in voters and (me not in voters or voters.index(other) < voters.index(me))

    def _answer(self, to: ReplicaKey, *, term: int, is_granted: bool, is_pre: bool) -> None:
        self._outbox.append((to, VoteResponse(term=term, is_granted=is_granted, is_pre=is_pre)))

    def _question_leader(self) -> None:
        """
        Ask the leader, with a pre-vote request, whether it still leads: its broker is alive, but the leader may have
        stepped down unnoticed.  Any VoteResponse from the leader makes this replica stop following it.  If the
        leader still leads, its next AppendEntries makes this replica follow it again.
        """
        assert self.leader is not None, "there is no leader to ask"
        self._outbox.append((self.leader, self._vote_request(self.term + 1, is_pre=True, is_transfer=False)))

    def on_vote_answer(self, sender: ReplicaKey, answer: VoteResponse) -> None:
        if sender == self.leader and self.role is Role.FOLLOWER:
            self.leader = None  # until the leader sends an AppendEntries, which shows that it still leads
        election = self._election
        if election is None or answer.is_pre != election.is_pre:
            return
        if answer.is_granted and answer.term != self.term + (1 if election.is_pre else 0):
            return  # the answer belongs to an earlier election
        election.count(sender, is_granted=answer.is_granted)
        self._decide()

    # Methods for the durable state: the term and the vote.

    def _set_vote(self, term: int, voted_for: ReplicaKey | None) -> None:
        self.term = term
        self.voted_for = voted_for
        self.is_vote_changed = True
        self.is_vote_durable = False

    def take_vote(self) -> Vote:
        """Return the term and the vote, and record that the host has received them."""
        self.is_vote_changed = False
        return Vote(self.term, self.voted_for)

    def vote_is_durable(self, vote: Vote | None) -> None:
        """Record that `vote` is durable; ignore it if the vote has changed since."""
        if self.is_vote_durable or self.is_vote_changed or vote != Vote(self.term, self.voted_for):
            return
        self.is_vote_durable = True
        if self._election is not None and not self._election.is_pre:
            self._election.count(self._me, is_granted=True)
            self._decide()

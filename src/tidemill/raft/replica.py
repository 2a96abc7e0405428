"""Replica: one member's part of a replicated log, based on Ongaro & Ousterhout 2014 and Ongaro's thesis.

The replica is a pure state machine with five verbs.  `receive` and `tick` deliver messages and time, `propose` appends
a leader's entries, `ready` returns the work that the host must do (in the order of `raft/ready.py`), and `advance`
reports how much of that work has become durable.

    FOLLOWER ── no live leader ──▶ PRE_CANDIDATE ── pre-vote won ──▶ CANDIDATE ── election won ──▶ LEADER
        ▲                                │                               │                           │
        └────────── a leader, a higher term, or an election lost ────────┴── no live majority ───────┘

Each concern has its own module, to which the replica routes messages and ticks:

    open_log              entries; the commit index and the durable index; the memberships that the log holds
    elections             term, vote, role and leader; pre-votes and campaigns
    follower              while this replica follows: the entries that it takes and acknowledges
    progress_tracker      while this replica leads: the progress of every other member
    leadership_transfer   while this replica leads: a transfer under way
    journal_pressure      a journal that is full, and yielding leadership because of it
    repair                damaged files, and a snapshot that is being installed

Invariants of the replica as a whole.  Each module also has its own, and `docs/raft.md` describes what would go wrong
without them:
- No message is sent before the term and the vote are durable.  Even a sole voter becomes leader only then.
- A leader counts its own log up to `durable_index` and no further, and commits only entries of its own term by counting
  replicas.  Earlier entries commit with them.
- A report of durability names an entry by term and index, and is ignored if the log no longer holds that entry.
- Liveness is tracked per pair of brokers and passed to `tick`: a shard has no heartbeats, and an idle replica sends
  nothing.  The replica learns the time only from `tick`, so an event between two ticks gets the time of the later one.
"""

from collections.abc import Callable
from typing import Final

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft import quorum
from tidemill.raft.elections import Alive, Elections
from tidemill.raft.entry import COMMAND, Entry, no_op, voters_change
from tidemill.raft.follower import Follower
from tidemill.raft.journal_pressure import JournalPressure
from tidemill.raft.leadership_transfer import LeadershipTransfer
from tidemill.raft.log_view import LogView
from tidemill.raft.memberships import Memberships
from tidemill.raft.messages import (
    AppendEntries,
    AppendEntriesResponse,
    Damaged,
    Message,
    Released,
    ReleaseRequest,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotPull,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tidemill.raft.open_log import OpenLog
from tidemill.raft.progress import Window
from tidemill.raft.progress_tracker import ProgressTracker
from tidemill.raft.ready import Ready, Vote
from tidemill.raft.repair import Repair
from tidemill.raft.replica_view import ReplicaView
from tidemill.raft.role import Role
from tidemill.raft.voters import IllegalChange, Membership, check_change

DEFAULT_WINDOW: Final = Window()


class Replica(ReplicaView):
    """
    A replica: its five verbs (`receive`, `tick`, `propose`, `ready`, `advance`), and methods for other events that the
    host reports.
    """

    __slots__ = ("_append_time", "_now_ms", "_pressure", "_pulls", "window")

    def __init__(
        self,
        *,
        me: ReplicaKey,
        memberships: list[tuple[int, Membership]],
        term: int,
        voted_for: ReplicaKey | None,
        log: LogView,
        commit_index: int,
        jitter_ms: Callable[[], int],
        window: Window = DEFAULT_WINDOW,
        installing: tuple[int, int] | None = None,
        is_damaged: bool = False,
    ) -> None:
        """
        Open a replica on the state that recovery has read.

        `memberships` holds each membership with the log index from which it is in force; the first is committed.
        `jitter_ms` returns the random part of the election timeout.  `installing` is the index and term of a snapshot
        whose install was not finished.  `is_damaged`: the disk no longer holds all entries that `log` lists.
        """
        self.me = me
        self.term_start_index = 0
        self._tracker = None
        self.window = window
        self._outbox = []  # messages, held back until the vote is durable; then `ready` takes them
        self._log = OpenLog(log, Memberships(memberships), commit_index)
        self._elections = Elections(
            me=me,
            term=term,
            voted_for=voted_for,
            log=self._log,
            jitter_ms=jitter_ms,
            outbox=self._outbox,
            became_follower=self._became_follower,
            became_leader=self._became_leader,
        )
        self._leadership_transfer = LeadershipTransfer()
        self._pressure = JournalPressure()
        self._repair = Repair(snapshot=installing, is_damaged=is_damaged)
        self._follower = Follower(
            me=me, log=self._log, elections=self._elections, repair=self._repair, outbox=self._outbox
        )
        self._pulls: list[tuple[ReplicaKey, SnapshotPull]] = []
        self._now_ms = 0  # the time of the last tick
        self._append_time = 0  # the append time given by the last tick

    # Methods that handle ticks.

    def tick(self, now_ms: int, append_time: int, is_alive: Alive, *, is_journal_full: bool = False) -> None:
        """
        Deliver the time.  Called a few times a second, unless the shard is idle (`needs_tick`).

        `now_ms` is monotonic, `append_time` is wall-clock time in ms.  `is_alive` returns whether another member's
        broker is running its event loop, syncing its journal and serving this shard.  `is_journal_full`: entries wait
        on this broker because the journal has no room for them; votes do not wait.
        """
        elections = self._elections
        self._pressure.tick(now_ms, self._now_ms, is_full=is_journal_full)
        self._now_ms = now_ms
        self._append_time = append_time
        elections.is_alive = is_alive
        if self._repair.is_damaged:
            self._follower.report_damage(self._now_ms)
        if elections.role is Role.LEADER:
            self._tick_leader()
        elif elections.is_led():
            elections.leader_is_alive()
        elif self._may_campaign():
            elections.tick(now_ms)
        elif self._pressure.led_term:
            self._yield_if_full()

    def _tick_leader(self) -> None:
        tracker, is_alive = self._tracker, self._elections.is_alive
        assert tracker is not None, "a leader replicates"
        counted = [voter for voter in self.voters if is_alive(voter) and tracker.repair_floor(voter) is None]
        if not quorum.has_majority(self.voters, [self.me, *counted]):
            # Without contact with a majority, this leader would not learn that the others have elected another leader.
            self._elections.follow(self.term, None)
            return
        self._leadership_transfer.tick(self._now_ms)
        self._continue_transfer()
        if self._tracker is None:
            return  # this replica campaigns for a later term
        self._yield_if_full()
        tracker.retry(self._now_ms, self.commit_index, is_alive)

    def _yield_if_full(self) -> None:
        """If the journal has been full for too long, ask one live voter to campaign: first the most advanced one."""
        if not self._pressure.is_yield_due(self._now_ms):
            return
        matches = self.matches
        able = [voter for voter in self.voters if voter != self.me and self._elections.is_alive(voter)]
        able.sort(key=lambda voter: matches.get(voter, 0), reverse=True)
        successor = self._pressure.next_successor(able)
        if successor is not None:
            self._outbox.append((successor, TimeoutNow(term=self._pressure.led_term)))

    def _may_campaign(self) -> bool:
        """
        Return whether this replica may campaign.  An entry that removes this replica from the voters prevents campaigns
        only once the entry has committed: until then, possibly no other member has the entry.
        """
        if self._repair.snapshot is not None or self._repair.is_damaged:
            return False
        if self._pressure.is_full and len(self.voters) > 1:
            return False
        return self._log.memberships.has_voter(self.me)

    # Methods that handle changes of the role and of the leader.

    def _became_follower(self, is_new: bool) -> None:
        if is_new:
            self._follower.match_index = 0
        self._tracker = None
        self._pulls.clear()
        self._leadership_transfer.cancel()
        if self._elections.leader is not None:
            self._pressure.led_term = 0

    def _became_leader(self) -> None:
        self._pressure.led_term = self.term
        self.term_start_index = self._log.last_index + 1
        self._tracker = ProgressTracker(self.me, self._log, self.membership, self.window)
        self.propose(no_op(max(self._append_time, self._log.last_append_time)))

    def forget_leader(self) -> None:
        """Stop following the leader of this term, without campaigning: it may no longer lead."""
        self._elections.leader = None

    def peer_restarted(self, member: ReplicaKey) -> None:
        """Handle a restart of `member`'s broker: if `member` was the leader, it no longer leads."""
        if self.leader == member:
            self.forget_leader()

    def peer_reconnected(self, member: ReplicaKey) -> None:
        """Handle a new connection to `member`'s broker: messages in flight may have been lost."""
        if self._tracker is not None:
            self._tracker.peer_reconnected(member)

    # Methods that handle messages from other members.

    def receive(self, sender: ReplicaKey, message: Message) -> None:
        """Deliver a message from another member."""
        elections = self._elections
        if message.term > elections.term:
            elections.observe_term(message)
        match message:
            case VoteRequest():
                self._on_vote_request(sender, message)
            case VoteResponse():
                elections.on_vote_answer(sender, message)
            case AppendEntries():
                self._follower.on_append(sender, message)
            case AppendEntriesResponse():
                self._on_append_answer(sender, message)
            case TimeoutNow():
                if message.term == elections.term and elections.role is Role.FOLLOWER and self._may_campaign():
                    elections.campaign(is_transfer=True)
            case Damaged():
                self._on_damaged(sender, message)
            case ReleaseRequest():
                self._on_release_request(sender)
            case Released():
                pass  # the host closes the replica, if `is_released` and the plan agree
            case SnapshotOffer():
                self._follower.on_offer(sender, message)
            case SnapshotPull():
                tracker = self._tracker
                if message.term == elections.term and tracker and tracker.pulled(sender):
                    self._pulls.append((sender, message))
            case SnapshotChunk():
                self._follower.on_chunk(sender, message)

    def _on_vote_request(self, sender: ReplicaKey, request: VoteRequest) -> None:
        if self._tracker is not None:
            # A replica that requests a vote does not follow this leader, and may have ignored the messages in flight.
            self._tracker.peer_reconnected(sender)
        self._elections.on_vote_request(sender, request, may_grant=not self._repair.is_damaged)

    def _on_append_answer(self, sender: ReplicaKey, answer: AppendEntriesResponse) -> None:
        tracker = self._tracker
        if tracker is None or answer.term != self._elections.term:
            return
        if tracker.answered(sender, answer):
            self._count()
        if answer.is_installing:
            self._log.commit(min(answer.commit_index, self._log.last_index))  # earlier leaders committed these entries
        if self._leadership_transfer.target is not None:
            self._continue_transfer()

    def _on_release_request(self, sender: ReplicaKey) -> None:
        memberships = self._log.memberships
        if self.is_confirmed and memberships.is_committed and sender not in memberships.current.members:
            self._outbox.append((sender, Released(term=self.term, index=memberships.changed_at)))

    def is_released(self, message: Released) -> bool:
        """
        Return whether this replica may be closed because of `message`, which has been received: no leader counts on it.

        A message that was delayed may be older than the entry with which its leader has added this replica again.  No
        later leader has added it if the message's term is the newest that this replica knows.
        """
        log, memberships = self._log, self._log.memberships
        # The term of an entry that has left memory is not known.  But if a later entry is of the message's term, the
        # leader's log holds the former one, too, which it lacked when it sent the message with an earlier index.
        known_at = max(memberships.changed_at, log.first_index - 1)
        is_added_later = (
            self.me in memberships.current.members
            and memberships.changed_at > message.index
            and log.term_at(known_at) == message.term
        )
        return message.term == self.term and not self.leads and not is_added_later

    # Methods for damage and installs; see also `raft/repair.py` and `raft/follower.py`.

    def mark_damaged(self) -> None:
        """
        Record that the disk has lost entries that may have been acknowledged, and stop voting, acknowledging and
        leading until a snapshot has repaired this replica.
        """
        if self._repair.is_damaged:
            return
        if self._tracker is not None:
            matches = {it: match for it, match in self._tracker.matches.items() if it in self.voters}
            able = [voter for voter in matches if self._elections.is_alive(voter)]
            if able:
                self._outbox.append((max(able, key=lambda voter: matches[voter]), TimeoutNow(term=self.term)))
        self._elections.follow(self.term, self.leader if self.role is Role.FOLLOWER else None)
        self._follower.match_index = 0
        self._repair.mark_damaged()
        self._follower.report_damage(self._now_ms)

    def _on_damaged(self, sender: ReplicaKey, message: Damaged) -> None:
        if sender == self.leader and message.term == self.term:
            self.forget_leader()  # a damaged leader has stepped down
        if self._tracker is not None:
            self._tracker.damaged(sender, (message.last_term, message.last_index), self._now_ms)

    def installed(self, membership: Membership) -> None:
        """
        Record that the host's log now begins after the snapshot, with `membership` in force.  This replica acknowledges
        the snapshot once `advance` reports it durable.
        """
        self._follower.installed(membership)

    # Methods that only a leader uses.

    def propose(self, entry: Entry) -> int:
        """Append `entry` to the log in the current term, and return its index.  Call it only on a leader."""
        elections, log = self._elections, self._log
        assert elections.role is Role.LEADER, f"proposed to a {elections.role}"
        entry.index = index = log.last_index + 1
        entry.term = elections.term
        log.append(entry)
        if entry.kind == COMMAND and self._tracker is not None:
            self._tracker.follow(log.memberships.current)
        return index

    def change_membership(self, membership: Membership, append_time: int) -> int:
        """
        Propose `membership` and return the entry's index.  Raises IllegalChange if the change is unsafe.

        A member that this leader has removed can return only in a later term, which `begin_term` begins: it returns
        with an empty log, and a late message of its former replica must not count for the new one.
        """
        if not self.is_confirmed:
            raise IllegalChange("the leader has not committed an entry of its own term")
        if self._log.memberships.changed_at > self.commit_index:
            raise IllegalChange("the change before this one is not committed")
        check_change(self.membership, membership)
        if self.has_removed(membership.members):
            raise IllegalChange("a member would return in the term in which it was removed")
        return self.propose(voters_change(membership.encode(), append_time))

    def has_removed(self, members: tuple[ReplicaKey, ...]) -> bool:
        """Return whether this leader has removed one of `members` in its term."""
        return self._tracker is not None and not self._tracker.removed.isdisjoint(members)

    def request_read_index(self) -> int:
        """
        Begin a read index round and return its number.  Once `read_index_round` has reached the number, a read may be
        answered from the entries that were committed when this method was called.  Ongaro's thesis §6.4.
        """
        assert self._tracker is not None, "only a leader asks"
        self._tracker.serial += 1
        return self._tracker.serial

    def transfer_leadership(self, to: ReplicaKey) -> None:
        """Transfer leadership to the voter `to` as soon as it holds the whole log."""
        if self.leads and to in self.voters and to != self.me:
            self._leadership_transfer.begin(to)
            self._continue_transfer()

    def begin_term(self) -> None:
        """Campaign for a later term as soon as all entries are committed.  Until then, nothing may be proposed."""
        if self.leads:
            self._leadership_transfer.begin(self.me)
            self._continue_transfer()

    def _continue_transfer(self) -> None:
        """
        Tell the target to campaign once it holds the whole log and the log is committed and durable on this broker, so
        that clients waiting for their entries are answered before leadership moves.
        """
        target = self._leadership_transfer.target
        if target is None or self._tracker is None:
            return
        if target == self.me:
            if self._log.last_index == self.stable_index:
                self._elections.follow(self.term, None)
                self._elections.campaign(is_transfer=True)
            return
        progress = self._tracker.members.get(target)
        if progress is not None and progress.match_index == self._log.last_index == self.stable_index:
            self._outbox.append((target, TimeoutNow(term=self.term)))

    def pause(self, learner: ReplicaKey, *, is_paused: bool) -> None:
        """Send `learner` no entries while `is_paused`.  Its promotion ends a pause; the host itself paces snapshots."""
        if self._tracker is not None and learner in self.membership.learners:
            self._tracker.pause(learner, is_paused=is_paused)

    def is_pulling(self, member: ReplicaKey) -> bool:
        """
        Return whether a pull of `member` that the host has not answered yet still wants an answer.  No offer to
        `member` is repeated as long as this is called a few times a second.
        """
        return self._tracker is not None and self._tracker.pulled(member)

    def needs_install(self, member: ReplicaKey) -> None:
        """Offer `member` a snapshot, because the bytes of its next entry are gone from this broker."""
        if self._tracker is not None:
            self._tracker.needs_install(member)

    def offered(self, member: ReplicaKey, index: int) -> None:
        """Record that the host has offered `member` a snapshot at `index`."""
        assert self._tracker is not None, "only a leader offers"
        self._tracker.offered(member, index)

    def _count(self) -> None:
        """Commit the entries that a majority has on disk, if the last of them belongs to this term."""
        assert self._tracker is not None, "only a leader counts"
        log = self._log
        index = self._tracker.majority_index(self.voters, log.durable_index)
        if index <= log.commit_index or index < self.term_start_index:
            return
        log.commit(index)
        if self.me not in self.voters and log.memberships.changed_at <= index:
            self._elections.follow(self.term, None)  # this leader's removal from the voters is committed

    # Methods that give work to the host and take its reports.

    def ready(self) -> Ready:
        """Return the work that is due now.  Each piece of work is returned only once."""
        elections, repair, tracker = self._elections, self._repair, self._tracker
        is_alone = tracker is None or not tracker.members
        if is_alone and not (elections.is_vote_changed or self._outbox or repair.offer or repair.chunks):
            return Ready(None, *self._log.take())
        vote = elections.take_vote() if elections.is_vote_changed else None
        messages: list[tuple[ReplicaKey, Message]] = []
        # A peer must not learn of a term that a crash could make this replica forget.
        if self._outbox and elections.is_vote_durable:
            messages += self._outbox
            self._outbox.clear()
        installs: list[ReplicaKey] = []
        if tracker is not None and tracker.members:
            messages += tracker.messages(elections.term, self._log.commit_index)
            installs += tracker.needing_offer()
        truncate_from, entries = self._log.take()
        pulls, self._pulls = self._pulls, []
        offer, repair.offer = repair.offer, None
        chunks, repair.chunks = repair.chunks, []
        return Ready(
            vote=vote,
            truncate_from=truncate_from,
            entries=entries,
            messages=messages,
            installs=installs,
            pulls=pulls,
            offer=offer,
            chunks=chunks,
        )

    def advance(self, term: int, index: int, vote: Vote | None = None) -> bool:
        """
        Report that the entry of `term` at `index`, all entries before it, and `vote` are durable.  Return whether the
        stable index has moved or the role has changed.
        """
        elections, log = self._elections, self._log
        stable_before, role_before = log.stable_index, elections.role
        if not elections.is_vote_durable:
            elections.vote_is_durable(vote)
        if index > log.durable_index and log.holds(index, term):
            log.durable_index = index
            if self._repair.is_installed:
                self._follower.install_is_durable()
            if elections.role is Role.LEADER:
                self._count()
                if self._leadership_transfer.target is not None:
                    self._continue_transfer()
            elif elections.leader is not None and self._follower.match_index:
                self._follower.acknowledge(0)
        return elections.role is not role_before or log.stable_index != stable_before

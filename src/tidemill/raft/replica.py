"""Replica: one voter's part of one replicated log, pure.  Ongaro & Ousterhout 2014, and Ongaro's thesis for what that
leaves out.

Five verbs: `receive` and `tick` take what happens outside, `propose` takes a leader's new entries, `ready` hands out
what the shell must do (`raft/ready.py` says in which order), `advance` tells what of it is durable.

    FOLLOWER ── its leader is gone ──▶ PRE_CANDIDATE ── a majority would ──▶ CANDIDATE ── a majority did ──▶ LEADER
        ▲                                    │                                 │                              │
        └────────── a leader, a higher term, or too many refusals ─────────────┴── no majority is alive ──────┘

What must hold:
- A term and a vote are durable before anybody hears of them; a single voter leads only then.
- The leader counts itself where its own journal has synced, never further; so does whoever answers it.
- Only entries of the leader's own term commit by counting; what lies before them commits with them.
- A report of durability names an entry, by term and index; one that the log does not hold any more says nothing.
- A follower that installs a snapshot takes no entry, answers for none and does not stand; it votes as the log was that
  it had before, until the snapshot is durable.
- A damaged replica does not vote either, and takes only a snapshot that is not before the last entry it answered for.
- Who is alive says the pair of brokers (`tick`): there are no heartbeats per shard, and an idle replica sends nothing.
- Only a tick knows what time it is, and a replica that sleeps has none: what happens between two is timed by the later.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft import quorum
from tidemill.raft.election import Election
from tidemill.raft.entry import COMMAND, Command, Entry, no_op, voters_change
from tidemill.raft.log_view import LogView
from tidemill.raft.messages import (
    AppendEntries,
    AppendEntriesResponse,
    Damaged,
    Message,
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
from tidemill.raft.voters import IllegalChange, Membership, check_change

ELECTION_MS: Final = 1_000  # after which a try that was not decided begins again;
FIRST_ELECTION_MS: Final = 125  # the first ones sooner, twice as late each time
TRANSFER_MS: Final = 1_500  # a leader that hands over and is not deposed by then goes on leading
FULL_MS: Final = 2_000  # a leader whose journal has no room for so long asks somebody else to lead
DAMAGED_MS: Final = 500  # a damaged replica says so again


class Role(StrEnum):
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


DEFAULT_WINDOW: Final = Window()
Alive = Callable[[ReplicaKey], bool]


def nobody(_: ReplicaKey) -> bool:
    return False


class Replica:
    """Indexes and terms count from 1; 0 stands for "before the log"."""

    __slots__ = (
        "_alive",
        "_append_time",
        "_chunks",
        "_damage_told_ms",
        "_deadline",
        "_election",
        "_full_since",
        "_given_up",
        "_is_installed",
        "_jitter_ms",
        "_led_term",
        "_log",
        "_memberships",
        "_messages",
        "_now_ms",
        "_offer",
        "_pause_ms",
        "_pulls",
        "_transfer",
        "_tries",
        "_vote_changed",
        "_vote_durable",
        "commit_index",
        "durable_index",
        "installing",
        "is_damaged",
        "leader",
        "match_index",
        "me",
        "role",
        "term",
        "term_start_index",
        "tracker",
        "voted_for",
        "window",
    )

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
        `memberships` are those in force from a log index on, the first of them committed.  `jitter_ms` draws how long
        this replica waits before it stands for election, so that not all do at once.  `installing` is the snapshot,
        by index and term, that was not whole when it was opened.  `is_damaged`: not everything that `log` tells of is
        on this disk any more.
        """
        self.me = me
        self.role = Role.FOLLOWER
        self.term = term
        self.voted_for = voted_for
        self.leader: ReplicaKey | None = None  # of `term`, as far as this replica knows
        self.durable_index = log.last_index  # recovery has synced what it found
        self.match_index = 0  # the log is alike with the leader's up to here
        self.commit_index = commit_index
        self.term_start_index = 0  # the index of the first entry of the term that this replica leads
        self.tracker: ProgressTracker | None = None  # while it leads
        self.window = window
        self.installing = installing  # from the offer on until it is durable
        self.is_damaged = is_damaged  # until such an install is
        self._is_installed = False  # the row that ends an install is queued
        self._damage_told_ms: int | None = None
        self._offer: SnapshotOffer | None = None
        self._pulls: list[tuple[ReplicaKey, SnapshotPull]] = []
        self._chunks: list[SnapshotChunk] = []
        self._log = OpenLog(log)
        self._memberships = memberships
        self._election: Election | None = None
        self._messages: list[tuple[ReplicaKey, Message]] = []
        self._vote_changed = False
        self._vote_durable = True
        self._transfer: tuple[ReplicaKey, int] | None = (
            None  # to whom leadership is handed, and until when; 0: not ticked yet
        )
        self._jitter_ms = jitter_ms
        self._now_ms = 0
        self._append_time = 0
        self._deadline: int | None = None  # when to stand for election
        self._pause_ms: int | None = None  # … so long after the next tick
        self._tries = 0  # to be elected, since somebody led
        self._full_since: int | None = None  # the journal here has no room for entries
        self._given_up = 0  # times since then
        self._led_term = 0  # that it led last, while it has heard of no leader since: others may still follow it there
        self._alive: Alive = nobody

    # What others look at.

    @property
    def voters(self) -> tuple[ReplicaKey, ...]:
        return self.membership.voters

    @property
    def membership(self) -> Membership:
        return self._memberships[-1][1]

    @property
    def last_index(self) -> int:
        return self._log.last_index

    @property
    def stable_index(self) -> int:
        """Committed, and on this disk: what may be applied, served and removed here."""
        committed, durable = self.commit_index, self.durable_index
        return committed if committed < durable else durable

    @property
    def leads(self) -> bool:
        """Elected; whether its reign is confirmed says `is_confirmed`."""
        return self.role is Role.LEADER

    @property
    def is_confirmed(self) -> bool:
        """
        An entry of this leader's own term has committed, and is on this disk: only now may it answer for the log.
        Others can commit it while the disk here is behind, and then more is committed than may be applied here.
        """
        return self.role is Role.LEADER and self.stable_index >= self.term_start_index

    @property
    def may_propose(self) -> bool:
        """Not while it hands over: what is appended now would only make the other wait."""
        return self.role is Role.LEADER and self._transfer is None

    @property
    def transfer_target(self) -> ReplicaKey | None:
        return None if self._transfer is None else self._transfer[0]

    @property
    def read_index_round(self) -> int:
        """A majority still followed this leader when it was asked this question; 0 while it does not lead."""
        if self.tracker is None:
            return 0
        return quorum.reached_by_majority(self.voters, self.tracker.answered_serials)

    @property
    def has_ready(self) -> bool:
        has_messages = self._messages and self._vote_durable
        has_members = self.tracker is not None and bool(self.tracker.members)
        has_install = self._offer is not None or bool(self._chunks)
        return self._vote_changed or self._log.has_changed or bool(has_messages) or has_members or has_install

    @property
    def needed_index(self) -> int:
        """What lies before this entry no member that is alive has still to be sent."""
        if self.tracker is None:
            return self._log.last_index + 1
        return self.tracker.needed_index(self._alive)

    @property
    def needs_tick(self) -> bool:
        """Time alone may make it do something, while everybody is as alive as at the last `tick`."""
        if self.role is not Role.LEADER:
            return self.is_damaged or not self._is_led()
        assert self.tracker is not None, "a leader replicates"
        if self._transfer is not None or self.stable_index < self._log.last_index:
            return True
        return self.tracker.waits_for_answers(self.commit_index, self._alive)

    # Time.

    def tick(self, now_ms: int, append_time: int, is_alive: Alive, *, is_journal_full: bool = False) -> None:
        """
        Called a few times a second while the shard is awake.  `now_ms` is monotonic, `append_time` the wall clock's;
        `is_alive` says of another voter's broker whether its loop turns, its journal syncs, and it serves this shard.
        `is_journal_full`: entries wait here because the journal has no room for them; votes leave.
        """
        if not is_journal_full:
            self._full_since, self._given_up = None, 0
        elif self._full_since is None or now_ms - self._now_ms >= FULL_MS:  # it slept meanwhile: who knows
            self._full_since, self._given_up = now_ms, 0
        self._now_ms = now_ms
        self._append_time = append_time
        self._alive = is_alive
        if self.is_damaged:
            self._tell_damage()
        if self.role is Role.LEADER:
            self._tick_leader()
        elif self._is_led():
            self._wait(None)
            self._tries = 0
        elif self._may_campaign():
            if self._deadline is None:
                self._deadline = now_ms + self._next_pause_ms()
            if now_ms >= self._deadline:
                self._campaign(is_transfer=False)
        elif self._led_term:
            self._give_up_if_full()

    def _wait(self, pause_ms: int | None) -> None:
        """With standing for election; None: it is not known yet how long."""
        self._deadline, self._pause_ms = None, pause_ms

    def _next_pause_ms(self) -> int:
        if self._pause_ms is not None:
            return self._pause_ms
        if len(self.voters) == 1:
            return 0
        is_leaving = self.leader is not None and self._alive(self.leader)  # let it commit that it does
        return self._jitter_ms() + (ELECTION_MS if is_leaving else 0)

    def _tick_leader(self) -> None:
        assert self.tracker is not None, "a leader replicates"
        counted = [voter for voter in self.voters if self._alive(voter) and self.tracker.repair_floor(voter) is None]
        if not quorum.has_majority(self.voters, [self.me, *counted]):
            self._follow(self.term, None)  # another may have been elected where we are not heard
            return
        if self._transfer is not None:
            to, until_ms = self._transfer
            if not until_ms:
                self._transfer = (to, self._now_ms + TRANSFER_MS)
            elif self._now_ms >= until_ms:
                self._transfer = None
        self._resume_transfer()
        self._give_up_if_full()
        self.tracker.retry(self._now_ms, self.commit_index, self._alive)

    def _give_up_if_full(self) -> None:
        """
        What it appends gets onto others' disks, and never onto its own: it serves nothing of that.  It asks one after
        another to lead, until somebody does; also when it does not lead any more, for those of its term may not know.
        """
        if self._full_since is None or self._now_ms - self._full_since < FULL_MS * (self._given_up + 1):
            return
        matches = {} if self.tracker is None else self.tracker.matches
        able = [voter for voter in self.voters if voter != self.me and self._alive(voter)]
        able.sort(key=lambda voter: matches.get(voter, 0), reverse=True)
        if able:
            self._messages.append((able[self._given_up % len(able)], TimeoutNow(term=self._led_term)))
        self._given_up += 1

    def _may_campaign(self) -> bool:
        """Also one whose removal is not committed: it may be the only one that has the entry which says so."""
        if self.installing is not None or self.is_damaged:
            return False
        if self._full_since is not None and len(self.voters) > 1:
            return False
        return any(self.me in membership.voters for _, membership in self._memberships)

    # Damage.

    def mark_damaged(self) -> None:
        """What it has answered for is not all on this disk: from now on it counts nowhere, and leads no more."""
        if self.is_damaged:
            return
        if self.tracker is not None:
            matches = {it: match for it, match in self.tracker.matches.items() if it in self.voters}
            able = [voter for voter in matches if self._alive(voter)]
            if able:
                self._messages.append((max(able, key=lambda voter: matches[voter]), TimeoutNow(term=self.term)))
        self._follow(self.term, self.leader if self.role is Role.FOLLOWER else None)
        self.match_index = 0
        if self._is_installed:
            self.installing, self._is_installed = None, False  # the row that ends it was queued before
        self.is_damaged = True
        self._damage_told_ms = None
        self._tell_damage()

    def _tell_damage(self) -> None:
        if self._damage_told_ms is not None and self._now_ms - self._damage_told_ms < DAMAGED_MS:
            return
        self._damage_told_ms = self._now_ms
        message = self._damaged()
        self._messages += [(member, message) for member in self.membership.members if member != self.me]

    def _damaged(self) -> Damaged:
        last_term, last_index = self._promised()
        return Damaged(term=self.term, last_index=last_index, last_term=last_term)

    def _promised(self) -> tuple[int, int]:
        """Term and index of the last entry that it can have answered for; no snapshot is of nothing."""
        return self._log.last_term, max(self._log.last_index, 1)

    def _on_damaged(self, sender: ReplicaKey, message: Damaged) -> None:
        if sender == self.leader and message.term == self.term:
            self.leader = None  # it has stepped down
        if self.tracker is not None:
            self.tracker.damaged(sender, (message.last_term, message.last_index), self._now_ms)

    # Elections.

    def _campaign(self, *, is_transfer: bool) -> None:
        """Ask whether it would be elected; a single voter, and whom the leader has asked, need not."""
        self._wait(min(FIRST_ELECTION_MS << self._tries, ELECTION_MS) + self._jitter_ms())
        self._tries = min(self._tries + 1, 8)
        self.leader = None
        if is_transfer or len(self.voters) == 1:
            self._start_election(is_transfer=is_transfer)
            return
        self.role = Role.PRE_CANDIDATE
        self._election = Election(self.me, is_pre=True)
        self._ask_for_votes(self.term + 1)

    def _start_election(self, *, is_transfer: bool) -> None:
        self.role = Role.CANDIDATE
        self._election = Election(self.me, is_pre=False, is_transfer=is_transfer)
        self._set_term(self.term + 1, self.me)
        self._ask_for_votes(self.term)

    def _ask_for_votes(self, term: int) -> None:
        election = self._election
        assert election is not None, "nobody stands for election"
        log = self._log
        request = VoteRequest(
            term=term,
            last_index=log.last_index,
            last_term=log.last_term,
            is_pre=election.is_pre,
            is_transfer=election.is_transfer,
        )
        self._messages += [(voter, request) for voter in self.voters if voter != self.me]

    def _set_term(self, term: int, voted_for: ReplicaKey | None) -> None:
        self.term = term
        self.voted_for = voted_for
        self._vote_changed = True
        self._vote_durable = False

    def _follow(self, term: int, leader: ReplicaKey | None) -> None:
        if term > self.term:
            self._set_term(term, None)
        if leader is None or leader != self.leader or self.role is not Role.FOLLOWER:
            self.match_index = 0
        self.role = Role.FOLLOWER
        self.leader = leader
        self.tracker = None
        self._pulls.clear()
        self._election = None
        self._transfer = None
        self._wait(None)
        if leader is not None:
            self._led_term = 0

    def _decide(self) -> None:
        """The votes may suffice by now, or suffice no more."""
        election = self._election
        if election is None:
            return
        if election.is_won(self.voters):
            if election.is_pre:
                self._start_election(is_transfer=False)
            else:
                self._lead()
        elif election.is_lost(self.voters):
            self._step_back()

    def _step_back(self) -> None:
        """No candidate any more; it stands again when it would have."""
        deadline, pause_ms = self._deadline, self._pause_ms
        self._follow(self.term, None)
        self._deadline, self._pause_ms = deadline, pause_ms

    def _goes_first(self, other: ReplicaKey) -> bool:
        """Two who ask at the same time would split the votes: the one whose place is earlier goes on."""
        voters = self.voters
        return other in voters and (self.me not in voters or voters.index(other) < voters.index(self.me))

    def _lead(self) -> None:
        self.role = Role.LEADER
        self.leader = self.me
        self._led_term = self.term
        self._election = None
        self.term_start_index = self._log.last_index + 1
        self.tracker = ProgressTracker(self.me, self._log, self.membership, self.window)
        self.propose(no_op(max(self._append_time, self._log.last_append_time)))

    # What comes.

    def receive(self, sender: ReplicaKey, message: Message) -> None:
        if message.term > self.term and not self._may_ignore(sender, message):
            self._follow(message.term, None)
        match message:
            case VoteRequest():
                self._on_vote_request(sender, message)
            case VoteResponse():
                self._on_vote_answer(sender, message)
            case AppendEntries():
                self._on_append(sender, message)
            case AppendEntriesResponse():
                self._on_append_answer(sender, message)
            case TimeoutNow():
                if message.term == self.term and self.role is Role.FOLLOWER and self._may_campaign():
                    self._campaign(is_transfer=True)
            case Damaged():
                self._on_damaged(sender, message)
            case SnapshotOffer():
                self._on_offer(sender, message)
            case SnapshotPull():
                tracker = self.tracker
                if message.term == self.term and tracker and tracker.pulled(sender):
                    self._pulls.append((sender, message))
            case SnapshotChunk():
                is_ours = self.installing is not None and message.index == self.installing[0]
                if is_ours and message.term == self.term and sender == self.leader:
                    self._chunks.append(message)

    def _may_ignore(self, sender: ReplicaKey, message: Message) -> bool:
        """A higher term that changes nothing here: a question whether we would, or one while our leader is alive."""
        if isinstance(message, VoteRequest):
            return message.is_pre or (self._is_led() and not message.is_transfer)
        return isinstance(message, VoteResponse) and message.is_pre and message.is_granted

    def _is_led(self) -> bool:
        """There is no need of another leader."""
        if self.role is Role.LEADER:
            return True
        return self.leader in self.voters and self._alive(self.leader)

    def _on_vote_request(self, sender: ReplicaKey, request: VoteRequest) -> None:
        log = self._log
        if sender == self.leader:
            self.leader = None  # it has stepped down, or was started again
        is_up_to_date = (request.last_term, request.last_index) >= (log.last_term, log.last_index)
        may_change = not self._is_led() or request.is_transfer
        if not may_change and self.role is Role.FOLLOWER:
            self._question_leader()
        if self.tracker is not None:
            self.tracker.peer_reconnected(sender)  # who asks does not know its leader, or knows of a later term
        if self.is_damaged:
            self._messages.append((sender, VoteResponse(term=self.term, is_granted=False, is_pre=request.is_pre)))
            return
        if request.is_pre:
            is_granted = request.term > self.term and is_up_to_date and may_change
            term = request.term if is_granted else self.term
            self._messages.append((sender, VoteResponse(term=term, is_granted=is_granted, is_pre=True)))
            if is_granted and self.role is Role.PRE_CANDIDATE and self._goes_first(sender):
                self._step_back()
            return
        is_free = self.voted_for in (None, sender) and self.leader in (None, sender)
        if request.term != self.term or not is_free or not is_up_to_date:
            if request.term <= self.term:
                self._messages.append((sender, VoteResponse(term=self.term, is_granted=False)))
            return
        if self.voted_for is None:
            self._set_term(self.term, sender)
            self._wait(ELECTION_MS + self._jitter_ms())
        self._messages.append((sender, VoteResponse(term=self.term, is_granted=True)))

    def _question_leader(self) -> None:
        """
        Its broker is alive, and it may have stepped down where this replica did not hear of it: a leader answers with
        an Append, too, which follows the VoteAnswer.
        """
        assert self.leader is not None, "nobody leads"
        log = self._log
        question = VoteRequest(
            term=self.term + 1, last_index=log.last_index, last_term=log.last_term, is_pre=True, is_transfer=False
        )
        self._messages.append((self.leader, question))

    def _on_vote_answer(self, sender: ReplicaKey, answer: VoteResponse) -> None:
        if sender == self.leader and self.role is Role.FOLLOWER:
            self.leader = None  # until it is heard again
        election = self._election
        if election is None or answer.is_pre != election.is_pre:
            return
        if answer.is_granted and answer.term != self.term + (1 if election.is_pre else 0):
            return  # of an earlier try
        election.count(sender, is_granted=answer.is_granted)
        self._decide()

    def _on_append(self, sender: ReplicaKey, append: AppendEntries) -> None:
        if append.term < self.term:
            self._messages.append(
                (sender, AppendEntriesResponse(term=self.term, rejected_index=max(append.prev_index, 1)))
            )
            return
        self._follow_leader(sender)
        if self.installing is not None:
            self._answer_installing()
            return
        if self.is_damaged:
            self._messages.append((sender, self._damaged()))
            return
        log = self._log
        entries = append.entries
        prev_index = append.prev_index
        base_index = log.first_index - 1
        if prev_index < base_index:  # what lies before is committed here, and so alike
            entries = entries[base_index - prev_index :]
            prev_index = base_index
        elif not log.holds(prev_index, append.prev_term):
            hint = log.probable_match(prev_index, append.prev_term)
            self._messages.append(
                (
                    sender,
                    AppendEntriesResponse(
                        term=self.term,
                        serial=append.serial,
                        commit_index=self.commit_index,
                        rejected_index=prev_index,
                        hint_index=hint,
                        hint_term=log.term_at(hint) if hint >= base_index else 0,
                    ),
                )
            )
            return
        self._take(entries)
        self.match_index = max(self.match_index, append.prev_index + len(append.entries))
        self._commit(min(append.commit_index, self.match_index))
        if append.serial or self.durable_index >= self.match_index:
            self._answer_append(append.serial)  # else when it is on disk

    def _follow_leader(self, sender: ReplicaKey) -> None:
        if self.role is not Role.FOLLOWER or self.leader != sender:
            assert self.role is not Role.LEADER, f"{sender} and {self.me} lead term {self.term}"
            self._follow(self.term, sender)

    def _on_offer(self, sender: ReplicaKey, offer: SnapshotOffer) -> None:
        if offer.term < self.term:
            self._messages.append((sender, AppendEntriesResponse(term=self.term, rejected_index=1)))
            return
        self._follow_leader(sender)
        installing, log = self.installing, self._log
        is_here = offer.index <= self.commit_index or log.holds(offer.index, offer.index_term)
        if self.is_damaged and (offer.index_term, offer.index) < self._promised():
            self._messages.append((sender, self._damaged()))  # of what it answered for some would be missing
        elif installing is None and is_here and not self.is_damaged:
            self.match_index = max(self.match_index, offer.index)  # what is committed is alike
            self._answer_append(0)
        elif installing is None or (offer.index >= installing[0] and not self._is_installed):
            self.installing = (offer.index, offer.index_term)
            self._offer = offer
            self.match_index = 0
        elif offer.index < installing[0]:
            self._answer_installing()

    def _answer_installing(self) -> None:
        """A new leader may not know yet that the snapshot is committed, and would offer an older one."""
        assert self.leader is not None and self.installing is not None, "nobody leads, or nothing is installed"
        answer = AppendEntriesResponse(term=self.term, commit_index=self.installing[0], is_installing=True)
        self._messages.append((self.leader, answer))

    def _take(self, entries: tuple[Entry, ...]) -> None:
        """Append what is new; cut only where an entry differs, for a late message may tell of less than is here."""
        log = self._log
        for at, entry in enumerate(entries):
            if entry.index <= log.last_index:
                if log.term_at(entry.index) == entry.term:
                    continue
                assert entry.index > self.commit_index, f"{entry} contradicts what is committed"
                self._truncate(entry.index)
            for new in entries[at:]:
                log.append(new)
                self._note_membership(new)
            return

    def _truncate(self, from_index: int) -> None:
        self._log.truncate(from_index)
        self.durable_index = min(self.durable_index, from_index - 1)
        while self._memberships[-1][0] >= from_index:
            self._memberships.pop()

    def _note_membership(self, entry: Entry) -> None:
        if entry.kind == COMMAND and entry.payload and entry.payload[0] == Command.VOTERS:
            self._memberships.append((entry.index, Membership.decode(entry.payload, 1)))
            if self.tracker is not None:
                self.tracker.follow(self.membership)

    def _answer_append(self, serial: int) -> None:
        """What is alike with the leader's log, and on this disk."""
        assert self.leader is not None, "nobody leads"
        answer = AppendEntriesResponse(
            term=self.term,
            serial=serial,
            match_index=min(self.match_index, self.durable_index),
            commit_index=self.commit_index,
        )
        self._messages.append((self.leader, answer))

    def _on_append_answer(self, sender: ReplicaKey, answer: AppendEntriesResponse) -> None:
        tracker = self.tracker
        if tracker is None or answer.term != self.term:
            return
        if tracker.answered(sender, answer):
            self._count()
        if answer.is_installing:
            self._commit(min(answer.commit_index, self._log.last_index))  # an earlier leader has, and said so
        self._resume_transfer()

    def installed(self, membership: Membership) -> None:
        """
        The log that the shell keeps begins behind the snapshot now; it counts when `advance` says that this is durable.
        """
        assert self.installing is not None, "nothing was offered"
        self._log.installed()
        index = self.installing[0]
        assert self._log.last_index == index >= self.commit_index, f"the log ends at {self._log.last_index}"
        self._memberships = [(index, membership)]
        self.durable_index = self.stable_index  # of what is committed nothing was cut,
        if self.is_damaged:
            self.durable_index = min(self.durable_index, index - 1)  # but for what was damaged
        self._is_installed = True
        self.commit_index = index
        self.match_index = 0
        self._chunks.clear()

    # The leader.

    def propose(self, entry: Entry) -> int:
        """Append to the log of the term that this replica leads; the entry's index.  Only a leader may be asked."""
        assert self.role is Role.LEADER, f"proposed to a {self.role}"
        entry.index = index = self._log.last_index + 1
        entry.term = self.term
        self._log.append(entry)
        if entry.kind == COMMAND:
            self._note_membership(entry)
        return index

    def change_membership(self, membership: Membership, append_time: int) -> int:
        """The index of the entry that says so.  IllegalChange when it would put the log at risk now."""
        if not self.is_confirmed:
            raise IllegalChange("the leader has not committed an entry of its own term")
        if self._memberships[-1][0] > self.commit_index:
            raise IllegalChange("the change before this one is not committed")
        check_change(self.membership, membership)
        return self.propose(voters_change(membership.encode(), append_time))

    def request_read_index(self) -> int:
        """
        The serial of a question to all voters: a read may be answered from what was committed when it was asked, once
        `read_index_round` has come to it.
        """
        assert self.tracker is not None, "only a leader asks"
        self.tracker.serial += 1
        return self.tracker.serial

    def transfer_leadership(self, to: ReplicaKey) -> None:
        """Let `to` lead, as soon as it has all there is."""
        if self.role is Role.LEADER and to in self.voters and to != self.me:
            self._transfer = (to, 0)
            self._resume_transfer()

    def _resume_transfer(self) -> None:
        if self._transfer is None or self.tracker is None:
            return
        to = self._transfer[0]
        progress = self.tracker.members.get(to)
        # All is committed and on this disk by then, too: whoever waits for an answer here has had it.
        if progress is not None and progress.match_index == self._log.last_index == self.stable_index:
            self._messages.append((to, TimeoutNow(term=self.term)))

    def peer_restarted(self, member: ReplicaKey) -> None:
        """Its broker's process is another than before: it leads nothing, whatever was heard of it."""
        if self.leader == member:
            self.leader = None

    def peer_reconnected(self, member: ReplicaKey) -> None:
        """The connection to its broker is new."""
        if self.tracker is not None:
            self.tracker.peer_reconnected(member)

    def _count(self) -> bool:
        """What a majority has on disk is committed, if it is of this term."""
        assert self.tracker is not None, "only a leader counts"
        if self.tracker.members:
            reached = {**self.tracker.matches, self.me: self.durable_index}
            index = quorum.reached_by_majority(self.voters, reached)
        else:
            index = self.durable_index
        if index <= self.commit_index or index < self.term_start_index:
            return False
        self._commit(index)
        if self.me not in self.voters and self._memberships[-1][0] <= index:
            self._follow(self.term, None)  # its own removal is committed
        return True

    def _commit(self, index: int) -> None:
        if index > self.commit_index:
            self.commit_index = index
            while len(self._memberships) > 1 and self._memberships[1][0] <= index:
                del self._memberships[0]

    # What the shell does.

    def ready(self) -> Ready:
        """What has to be done now; handed out once."""
        is_alone = self.tracker is None or not self.tracker.members
        if is_alone and not (self._vote_changed or self._messages or self._offer or self._chunks):
            return Ready(None, *self._log.take())
        vote = None
        if self._vote_changed:
            self._vote_changed = False
            vote = Vote(self.term, self.voted_for)
        messages: list[tuple[ReplicaKey, Message]] = []
        if self._vote_durable:  # nobody hears of a term that a crash could make this replica forget
            messages, self._messages = self._messages, []
        installs: list[ReplicaKey] = []
        if self.tracker is not None and self.tracker.members:
            messages += self.tracker.messages(self.term, self.commit_index)
            installs += self.tracker.needing_offer()
        truncate_from, entries = self._log.take()
        pulls, self._pulls = self._pulls, []
        chunks, self._chunks = self._chunks, []
        offer, self._offer = self._offer, None
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

    def offered(self, member: ReplicaKey, index: int) -> None:
        """An Offer of the snapshot at `index` has left."""
        assert self.tracker is not None, "only a leader offers"
        self.tracker.offered(member, index)

    def advance(self, term: int, index: int, vote: Vote | None = None) -> bool:
        """
        The entry of `term` at `index` is durable, with all before it, and so is `vote`.  Whether the stable index
        moved or this replica became leader.
        """
        stable_before, role_before = min(self.commit_index, self.durable_index), self.role
        if not self._vote_durable and not self._vote_changed and vote == Vote(self.term, self.voted_for):
            self._vote_durable = True
            if self._election is not None and not self._election.is_pre:
                self._election.count(self.me, is_granted=True)
                self._decide()
        if index > self.durable_index and self._log.holds(index, term):
            self.durable_index = index
            if self.installing is not None and self._is_installed:
                self.match_index = self.installing[0]  # committed, so alike with the log of whoever leads
                self.installing = None
                self.is_damaged = self._is_installed = False
            if self.role is Role.LEADER:
                self._count()
                self._resume_transfer()
            elif self.leader is not None and self.match_index:
                self._answer_append(0)
        return self.role is not role_before or min(self.commit_index, self.durable_index) != stable_before

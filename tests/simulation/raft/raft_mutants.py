"""Plants well-known consensus bugs in the production code; the simulation or a transcript must find each of them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from tidemill.raft import quorum, replica
from tidemill.raft.election import Election
from tidemill.raft.follower import Follower
from tidemill.raft.memberships import Memberships
from tidemill.raft.open_log import OpenLog
from tidemill.raft.progress_tracker import ProgressTracker
from tidemill.raft.replica import Replica
from tidemill.raft.voters import Membership
from tidemill.simulation.shard import model_install
from tidemill.simulation.shard.shard_knobs import ShardKnobs


@dataclass(frozen=True, slots=True)
class RaftMutant:
    name: str
    planted: Callable[[], AbstractContextManager[None]]
    seeds_max: int = 0
    first_seed: int = 0  # is tried first, to save time: it has found the bug before
    transcript: str = ""
    adapt: Callable[[ShardKnobs], ShardKnobs] | None = None  # None: each run draws its knobs, including damage


@contextmanager
def append_always_truncates() -> Iterator[None]:
    def take(self: Any, entries: tuple[Any, ...]) -> None:
        if entries and entries[0].index <= self.last_index:
            self.truncate(entries[0].index)
        for entry in entries:
            self.append(entry)

    with patch.object(OpenLog, "append_missing", take):
        yield


@contextmanager
def majority_is_half() -> Iterator[None]:
    with patch.object(quorum, "majority", lambda voters: max(1, len(voters) // 2)):
        yield


@contextmanager
def serves_what_others_have_committed() -> Iterator[None]:
    """Let a leader serve before its own disk contains everything that was acknowledged before its term."""

    def hasty(self: Any) -> bool:
        return bool(self.leads and self.commit_index >= self.term_start_index)

    with patch.object(Replica, "is_confirmed", property(hasty)):
        yield


@contextmanager
def votes_for_a_shorter_log() -> Iterator[None]:
    on_vote_request = Replica._on_vote_request

    def blind(self: Any, sender: Any, request: Any) -> None:
        log = self._log
        newest = max((request.last_term, request.last_index), (log.last_term, log.last_index))
        on_vote_request(self, sender, type(request)(
            term=request.term, last_term=newest[0], last_index=newest[1], is_pre=request.is_pre,
            is_transfer=request.is_transfer,
        ))  # fmt: skip

    with patch.object(Replica, "_on_vote_request", blind):
        yield


@contextmanager
def follower_answers_before_its_sync() -> Iterator[None]:
    answer = Follower.acknowledge

    def early(self: Any, serial: int) -> None:
        durable, self._log.durable_index = self._log.durable_index, self.match_index
        answer(self, serial)
        self._log.durable_index = durable

    on_append = Follower.on_append

    def eager(self: Any, sender: Any, append: Any) -> None:
        on_append(self, sender, append)
        if self._elections.leader == sender and self.match_index:
            self.acknowledge(append.serial)

    with patch.object(Follower, "acknowledge", early), patch.object(Follower, "on_append", eager):
        yield


@contextmanager
def a_vote_counts_twice() -> Iterator[None]:
    def count(self: Any, voter: Any, *, is_granted: bool) -> None:
        if is_granted:
            self._granted.add((voter, len(self._granted)))

    def is_won(self: Any, voters: Any) -> bool:
        return len(self._granted) >= quorum.majority(voters)

    with patch.object(Election, "count", count), patch.object(Election, "is_won", is_won):
        yield


@contextmanager
def votes_twice_in_a_term() -> Iterator[None]:
    on_vote_request = Replica._on_vote_request

    def generous(self: Any, sender: Any, request: Any) -> None:
        if not request.is_pre and request.term == self.term:
            self._elections.voted_for = None
        on_vote_request(self, sender, request)

    with patch.object(Replica, "_on_vote_request", generous):
        yield


@contextmanager
def confirms_reads_without_a_round() -> Iterator[None]:
    """Let a replica that believes that it leads confirm reads immediately, without asking a majority."""

    def at_once(self: Any) -> int:
        return 0 if self._tracker is None else int(self._tracker.serial)

    with patch.object(Replica, "read_index_round", property(at_once)):
        yield


def with_partitions(knobs: ShardKnobs) -> ShardKnobs:
    """Inject only partitions and different clock rates, so that nothing else delays the news of a new leader."""
    quiet = dict.fromkeys(("crash", "crash_in_sync", "drop", "duplicate", "tail", "slow_sync"), 0.0)
    return replace(knobs, partition=0.5, clock_rate=0.3, delay_ms=5, sync_ms=1, **quiet)  # type: ignore[arg-type]


def with_membership_changes(knobs: ShardKnobs) -> ShardKnobs:
    """Change the membership every second, while nodes are isolated."""
    nodes = min(knobs.nodes, 5)
    return replace(knobs, nodes=nodes, spare=2, change=1.0, partition=0.2, drop=0.0, delay_ms=5, duration_ms=20_000)


def with_crashes_in_sync(knobs: ShardKnobs) -> ShardKnobs:
    """Let half of the syncs of votes end in a crash, and let nodes crash often."""
    return replace(knobs, crash=0.4, crash_in_sync=0.5)


def with_installs(knobs: ShardKnobs) -> ShardKnobs:
    return replace(knobs, forget=0.7, partition=0.2, crash=0.1, delay_ms=20, tail=0.05, duration_ms=20_000)


@contextmanager
def leader_counts_itself_before_its_sync() -> Iterator[None]:
    count = Replica._count

    def early(self: Any) -> None:
        durable, self._log.durable_index = self._log.durable_index, self._log.last_index
        count(self)
        self._log.durable_index = durable

    with patch.object(Replica, "_count", early):
        yield


@contextmanager
def answers_a_vote_before_its_sync() -> Iterator[None]:
    ready = Replica.ready

    def early(self: Any) -> Any:
        durable, self._elections.is_vote_durable = self._elections.is_vote_durable, True
        found = ready(self)
        self._elections.is_vote_durable = durable
        return found

    with patch.object(Replica, "ready", early):
        yield


@contextmanager
def believes_any_report() -> Iterator[None]:
    """
    Let a replica believe a sync that reports entries as durable even though they have been truncated in the meantime.
    """
    advance = Replica.advance

    def gullible(self: Any, term: int, index: int, vote: Any = None) -> bool:
        holds = OpenLog.holds
        with patch.object(OpenLog, "holds", lambda log, at, _: at <= log.last_index or holds(log, at, _)):
            return advance(self, term, index, vote)

    with patch.object(Replica, "advance", gullible):
        yield


@contextmanager
def changes_several_voters_at_once() -> Iterator[None]:
    """Let a leader change the membership even though the previous change has not committed."""

    def hasty(self: Any, membership: Membership, append_time: int) -> int:
        return int(self.propose(replica.voters_change(membership.encode(), append_time)))

    with patch.object(Replica, "change_membership", hasty):
        yield


@contextmanager
def keeps_a_truncated_membership() -> Iterator[None]:
    with patch.object(Memberships, "truncate", lambda self, from_index: None):
        yield


@contextmanager
def commits_older_terms_by_counting() -> Iterator[None]:
    """Let a leader commit entries of older terms by counting replicas (Figure 8 of the Raft paper).  Random runs would
    need thousands of seeds to find this bug, so a transcript covers it.
    """
    count = Replica._count

    def counting(self: Any) -> None:
        start, self.term_start_index = self.term_start_index, 0
        count(self)
        self.term_start_index = start

    with patch.object(Replica, "_count", counting):
        yield


@contextmanager
def install_answers_before_it_is_durable() -> Iterator[None]:
    installed = Replica.installed

    def early(self: Any, membership: Membership) -> None:
        installed(self, membership)
        self._log.durable_index = self._log.last_index
        self._follower.install_is_durable()
        if self.leader is not None:
            self._follower.acknowledge(0)

    with patch.object(Replica, "installed", early):
        yield


@contextmanager
def takes_entries_while_it_installs() -> Iterator[None]:
    on_append = Follower.on_append

    def greedy(self: Any, sender: Any, append: Any) -> None:
        installing, self._repair.snapshot = self._repair.snapshot, None
        on_append(self, sender, append)
        self._repair.snapshot = installing

    with patch.object(Follower, "on_append", greedy):
        yield


@contextmanager
def campaigns_while_it_installs() -> Iterator[None]:
    with patch.object(Replica, "_may_campaign", lambda self: self.me in self.voters):
        yield


@contextmanager
def install_truncates_committed_entries() -> Iterator[None]:
    """Let an install copy all entries, so that it truncates committed ones."""
    with patch.object(model_install, "meeting_offset", lambda *_: None):
        yield


@contextmanager
def install_keeps_divergent_entries() -> Iterator[None]:
    """Let an install compare only offsets, so that it keeps divergent entries."""

    def blind(ours: Any, our_end: int, theirs: Any, their_end: int) -> int:
        return min(our_end, their_end)

    with patch.object(model_install, "meeting_offset", blind):
        yield


@contextmanager
def offers_uncommitted_entries() -> Iterator[None]:
    """Let a snapshot contain entries that are durable but not committed."""
    snapshot = model_install.ModelCatchUp._snapshot

    def hasty(self: Any) -> Any:
        with patch.object(Replica, "stable_index", property(lambda replica: replica.durable_index)):
            return snapshot(self)

    with patch.object(model_install.ModelCatchUp, "_snapshot", hasty):
        yield


@contextmanager
def counts_other_replicas(who: Callable[[Replica], Iterable[Any]]) -> Iterator[None]:
    """Let a leader count the replicas in `who(leader)` instead of the voters when it advances its commit index."""
    count = Replica._count

    def generous(self: Any) -> None:
        ranked = sorted(
            (self.durable_index if it == self.me else self._tracker.matches.get(it, 0) for it in who(self)),
            reverse=True,
        )
        with patch.object(quorum, "reached_by_majority", lambda voters, _: ranked[quorum.majority(voters) - 1]):
            count(self)

    with patch.object(Replica, "_count", generous):
        yield


def a_learner_counts() -> AbstractContextManager[None]:
    return counts_other_replicas(lambda replica: replica.membership.members)


def voters_and_removed(replica: Replica) -> list[Any]:
    assert replica._tracker is not None, "only a leader counts"
    return [it for it in (replica.me, *replica._tracker.members) if it not in replica.membership.learners]


@contextmanager
def a_removed_voter_still_counts() -> Iterator[None]:
    """Let a leader still count a removed voter and keep replicating to it."""
    follow = ProgressTracker.follow

    def faithful(self: Any, membership: Membership) -> None:
        removed = tuple(member for member in self.members if member not in membership.members)
        follow(self, Membership(membership.voters, membership.learners + removed))

    with (
        patch.object(ProgressTracker, "follow", faithful),
        counts_other_replicas(voters_and_removed),
    ):
        yield


@contextmanager
def a_damaged_replica_votes() -> Iterator[None]:
    """Let a damaged replica grant its vote to any candidate, although it does not know which entries it has lost."""
    on_vote_request = Replica._on_vote_request

    def generous(self: Any, sender: Any, request: Any) -> None:
        damaged, self._repair.is_damaged = self._repair.is_damaged, False
        if damaged:
            request = replace(request, last_term=1 << 40)
        on_vote_request(self, sender, request)
        self._repair.is_damaged = damaged

    with patch.object(Replica, "_on_vote_request", generous):
        yield


@contextmanager
def a_damaged_replica_answers_for_entries() -> Iterator[None]:
    on_append = Follower.on_append

    def eager(self: Any, sender: Any, append: Any) -> None:
        damaged, self._repair.is_damaged = self._repair.is_damaged, False
        on_append(self, sender, append)
        self._repair.is_damaged = damaged

    with patch.object(Follower, "on_append", eager):
        yield


@contextmanager
def a_restart_forgets_damage() -> Iterator[None]:
    begin = Replica.__init__

    def forgetful(self: Any, **known: Any) -> None:
        begin(self, **{**known, "is_damaged": False})

    with patch.object(Replica, "__init__", forgetful):
        yield


@contextmanager
def any_snapshot_repairs() -> Iterator[None]:
    """Let a damaged replica accept a snapshot that lacks entries that it has acknowledged."""
    on_offer = Follower.on_offer

    def content(self: Any, sender: Any, offer: Any) -> None:
        repair = self._repair
        if repair.is_damaged and repair.snapshot is None and offer.term == self._elections.term and offer.index:
            self.follow(sender)
            repair.begin(offer)
            self.match_index = 0
        else:
            on_offer(self, sender, offer)

    with patch.object(Follower, "on_offer", content):
        yield


BY_RANDOM_RUNS = (
    RaftMutant("an append always truncates", append_always_truncates, 20),
    RaftMutant("half the voters are a majority", majority_is_half, 20),
    RaftMutant("votes for a shorter log", votes_for_a_shorter_log, 20),
    RaftMutant("a follower answers before its sync", follower_answers_before_its_sync, 20),
    RaftMutant("a vote counts twice", a_vote_counts_twice, 260, 41),
    RaftMutant("the leader counts itself before its sync", leader_counts_itself_before_its_sync, 40),
    RaftMutant(
        "a vote is answered before its sync", answers_a_vote_before_its_sync, 160, 18, adapt=with_crashes_in_sync
    ),
    RaftMutant("a voter votes twice in a term", votes_twice_in_a_term, 20),
    RaftMutant("a read is confirmed without a round", confirms_reads_without_a_round, 200, 6, adapt=with_partitions),
    RaftMutant("several voters change at once", changes_several_voters_at_once, 120, 15, adapt=with_membership_changes),
    RaftMutant("a learner counts", a_learner_counts, 60, 17),
    RaftMutant("a removed voter still counts", a_removed_voter_still_counts, 60),
    RaftMutant("takes entries while it installs", takes_entries_while_it_installs, 120, 19, adapt=with_installs),
    RaftMutant("an install truncates committed entries", install_truncates_committed_entries, 60),
    RaftMutant("an install keeps divergent entries", install_keeps_divergent_entries, 400),
    RaftMutant("a snapshot holds uncommitted entries", offers_uncommitted_entries, 400, 9),
    RaftMutant("a damaged replica votes", a_damaged_replica_votes, 20, 16),
    RaftMutant("a damaged replica answers for entries", a_damaged_replica_answers_for_entries, 20),
)
BY_TRANSCRIPT = (
    RaftMutant("believes any report of a sync", believes_any_report, transcript="sync_after_truncation.txt"),
    RaftMutant("older terms commit by counting", commits_older_terms_by_counting, transcript="figure_8.txt"),
    RaftMutant("a vote counts twice", a_vote_counts_twice, transcript="duplicate_vote.txt"),
    RaftMutant("an append always truncates", append_always_truncates, transcript="late_append.txt"),
    RaftMutant(
        "an install answers before it is durable",
        install_answers_before_it_is_durable,
        transcript="install_and_append.txt",
    ),
    RaftMutant("an install keeps divergent entries", install_keeps_divergent_entries, transcript="install_killed.txt"),
    RaftMutant("campaigns while it installs", campaigns_while_it_installs, transcript="install_killed.txt"),
    RaftMutant(
        "serves before it has applied what was committed",
        serves_what_others_have_committed,
        transcript="confirmed_by_others.txt",
    ),
    RaftMutant("a damaged replica votes", a_damaged_replica_votes, transcript="damaged.txt"),
    RaftMutant("a restart forgets damage", a_restart_forgets_damage, transcript="damaged.txt"),
    RaftMutant("any snapshot repairs", any_snapshot_repairs, transcript="damaged_promise.txt"),
    RaftMutant("keeps a truncated membership", keeps_a_truncated_membership, transcript="membership_rolled_back.txt"),
)

"""A shard with three voters, two of them played by the test: the messages it sends, and when waiters wake."""

from collections.abc import Callable

import pytest

from tidemill.batches.builder import build_batch
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.model.topic_config import compile_topic_config
from tidemill.raft.entry import BATCH, Entry, no_op
from tidemill.raft.messages import AppendEntries, AppendEntriesResponse, Message, VoteRequest, VoteResponse
from tidemill.raft.voters import Membership
from tidemill.shard import shard as shard_module
from tidemill.shard import uncommitted
from tidemill.shard.append import append_batch, append_own
from tidemill.shard.jobs import Workers
from tidemill.shard.shard import Shard
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.jobs import SimulatedJobs
from tidemill.storage.journal.shard_log import ShardDescriptor
from tidemill.storage.recovery import initialize_directory, open_store
from tidemill.storage.store import StoreOptions

ME, SECOND, THIRD = (ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2, 3))
WORKERS = Workers(SimulatedJobs(), SimulatedJobs(), lambda error: None)
KEY = b"k" * 16
NOW = 1_000_000
OPTIONS = StoreOptions(journal_first_bytes=1 << 20, journal_file_bytes=1 << 20, journal_bytes_max=4 << 20)


class RecordingPeers:
    """The transport and the observer of a shard.  It records every call; `alive` contains the live brokers."""

    def __init__(self) -> None:
        self.alive = {SECOND, THIRD}
        self.sent: list[tuple[ReplicaKey, Message]] = []
        self.served: list[bool] = []

    def is_alive(self, voter: ReplicaKey) -> bool:
        return voter in self.alive

    may_lead = is_alive

    def send(self, shard_id: ShardId, to: ReplicaKey, message: Message) -> None:
        self.sent.append((to, message))

    def serving_changed(self, shard: Shard) -> None:
        self.served.append(shard.is_serving)

    def damage_changed(self, shard: Shard) -> None:
        """Do nothing: the tests do not observe this."""

    def membership_changed(self, shard: Shard) -> None: ...

    def take(self, kind: type[Message]) -> list[tuple[ReplicaKey, Message]]:
        taken = [it for it in self.sent if isinstance(it[1], kind)]
        self.sent = [it for it in self.sent if not isinstance(it[1], kind)]
        return taken


class Replicated:
    def __init__(self) -> None:
        disk = SimulatedDisk()
        initialize_directory(disk, KEY, OPTIONS)
        self.store, _ = open_store(disk, KEY, OPTIONS)
        self.transport = RecordingPeers()
        descriptor = ShardDescriptor(
            topic_id=TopicId(b"t" * 16),
            first_partition=0,
            partition_count=1,
            feature_level=1,
            membership=Membership((ME, SECOND, THIRD)),
        )
        log = self.store.open_shard(ShardId(1), descriptor)
        self.shard = Shard(
            self.store,
            log,
            ME,
            "t",
            compile_topic_config({}),
            wake=lambda: None,
            jitter_ms=lambda: 0,
            transport=self.transport,
            observer=self.transport,
            workers=WORKERS,
        )

    def sync(self) -> None:
        while (block := self.store.gather()) is not None:
            block.write(self.store.journal)
            for report in self.store.written(block):
                self.shard.advance(report)

    def lead(self) -> None:
        """Win an election and commit its first entry, with the help of the second voter."""
        self.shard.tick(NOW, NOW)
        for is_pre in (True, False):
            (request, *_) = [message for _, message in self.transport.take(VoteRequest)]
            assert isinstance(request, VoteRequest) and request.is_pre is is_pre
            self.shard.receive(SECOND, VoteResponse(term=request.term, is_granted=True, is_pre=is_pre))
            self.sync()
        self.answer(SECOND)

    def answer(self, *voters: ReplicaKey) -> None:
        """Let `voters` acknowledge everything that was sent to them."""
        self.sync()
        for voter in voters:
            mine = [
                message for to, message in self.transport.sent if to == voter and isinstance(message, AppendEntries)
            ]
            self.transport.sent = [it for it in self.transport.sent if it[0] != voter]
            for append in mine:
                match_index = append.prev_index + len(append.entries)
                answer = AppendEntriesResponse(
                    term=append.term, serial=append.serial, match_index=match_index, commit_index=append.commit_index
                )
                self.shard.receive(voter, answer)

    def append(self, value: bytes) -> int:
        return append_own(self.shard.partitions[0], build_batch([(None, value, (), NOW)]), NOW)


def told(into: list[str], name: str) -> Callable[[bool], None]:
    return lambda is_known: into.append(f"{name} {is_known}")


def _of_another_leader(index: int, term: int) -> Entry:
    entry = no_op(NOW)
    entry.index, entry.term = index, term
    return entry


def test_a_leader_serves_when_an_entry_of_its_term_has_committed() -> None:
    """
    A new leader serves once an entry of its term has committed; before that, it may not know all acknowledged records.
    """
    replicated = Replicated()

    replicated.lead()

    assert ([True], 1) == (replicated.transport.served, replicated.shard.replica.term)


def test_a_read_waits_until_a_majority_confirms_the_leader() -> None:
    """
    A leader that does not know that it has been replaced must not answer reads.  Reads that arrive during a round wait
    for the next one.
    """
    replicated, heard = Replicated(), list[str]()
    replicated.lead()

    replicated.shard.confirm_leadership(told(heard, "first"))
    replicated.shard.confirm_leadership(told(heard, "second"))
    unanswered = [*heard]
    replicated.answer(SECOND)
    after_one = [*heard]
    replicated.answer(SECOND)

    assert ([], ["first True"], ["first True", "second True"]) == (unanswered, after_one, heard)


def test_a_leader_that_has_appended_its_own_removal_confirms_reads_with_the_voters() -> None:
    """
    A leader that has appended its own removal needs the answer of the one remaining voter to confirm a read, because
    that voter may have elected itself.
    """
    replicated, heard = Replicated(), list[str]()
    replicated.lead()
    for voters in ((ME, SECOND), (SECOND,)):
        replicated.shard.change_membership(Membership(voters), NOW)
        if ME in voters:
            replicated.answer(SECOND)

    replicated.shard.confirm_leadership(told(heard, "read"))

    assert [] == heard


def test_lost_leadership_fails_all_waiters() -> None:
    """
    When a higher term arrives, waiters for commits and reads learn that the outcome is unknown, and watchers are
    notified.
    """
    replicated, heard = Replicated(), list[str]()
    replicated.lead()
    index = replicated.append(b"x")
    replicated.shard.when_committed(index, told(heard, "commit"))
    replicated.shard.confirm_leadership(told(heard, "read"))
    replicated.shard.partitions[0].watch(lambda: heard.append("watcher"))

    replicated.shard.receive(SECOND, AppendEntriesResponse(term=9, rejected_index=1))

    assert (["commit False", "read False", "watcher"], [True, False]) == (sorted(heard), replicated.transport.served)


def test_an_entry_without_bytes_in_memory_is_sent_from_its_segment() -> None:
    """
    An entry whose bytes are no longer in memory is sent from its segment, for example to a follower that was
    unreachable.
    """
    replicated = Replicated()
    replicated.lead()
    index = replicated.append(b"x")
    replicated.answer(SECOND)
    write_back = replicated.store.next_write_back(0)
    assert write_back is not None
    write_back.execute(replicated.store.disk)
    replicated.store.write_back_done(write_back)
    assert replicated.shard.log.entry_at(index).payload is None
    replicated.transport.sent.clear()

    replicated.shard.peer_reconnected(THIRD)
    replicated.shard.receive(THIRD, AppendEntriesResponse(term=1, rejected_index=index, hint_index=0, hint_term=0))

    appends = [
        message for to, message in replicated.transport.sent if to == THIRD and isinstance(message, AppendEntries)
    ]
    batches = [entry for append in appends for entry in append.entries if entry.kind == BATCH]
    assert [index] == [entry.index for entry in batches if entry.payload is not None]


def test_a_batch_that_does_not_fit_into_a_followers_ring_is_rejected() -> None:
    """
    The leader's ring has grown, but a follower's may not have: the batch would block that follower forever.
    """
    replicated = Replicated()
    replicated.lead()
    replicated.store.journal.capacity = OPTIONS.journal_bytes_max
    fits = replicated.store.replicated_batch_bytes_max

    with pytest.raises(ValueError, match="the journal takes"):
        replicated.append(bytes(fits))

    assert OPTIONS.journal_first_bytes * 3 // 4 < fits < OPTIONS.journal_first_bytes < replicated.store.batch_bytes_max


def test_acks_1_waits_until_the_commit_index_has_come_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With acks=1, a producer waits until its entry is within NEAR_BYTES_MAX after the commit index; otherwise producers
    that outrun the followers would fill the leader's log up to its bound on uncommitted bytes.
    """
    monkeypatch.setattr(uncommitted, "NEAR_BYTES_MAX", 3 * (uncommitted.ENTRY_BYTES + 100))
    replicated, heard = Replicated(), list[str]()
    replicated.lead()
    first = replicated.append(b"x")
    for number in range(6):
        index = replicated.append(b"x")
        replicated.shard.when_durable(index, told(heard, f"{number}"))

    replicated.sync()
    near = [*heard]
    match = AppendEntriesResponse(term=1, match_index=first + 1, commit_index=first)
    replicated.shard.receive(SECOND, match)
    after_two = [*heard]
    replicated.answer(SECOND)

    assert ["0 True", "1 True"] == near
    assert [f"{number} True" for number in range(4)] == after_two
    assert [f"{number} True" for number in range(6)] == heard


def test_fewer_replicas_than_a_majority_are_never_enough() -> None:
    """
    min.insync.replicas may be lower than a majority, but an entry that another leader may truncate is not acknowledged.
    """
    replicated, heard = Replicated(), list[str]()
    replicated.lead()
    index = replicated.append(b"x")
    replicated.shard.when_replicated(index, 1, told(heard, "one"))

    replicated.sync()
    on_one = [*heard]
    replicated.shard.when_replicated(index, 1, told(heard, "another"))
    replicated.answer(SECOND)

    assert ([], {"one True", "another True"}) == (on_one, {*heard})


def test_a_leader_whose_followers_lag_rejects_batches_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A leader rejects batches while its uncommitted bytes are at their bound: if it appended them, its log would grow
    without limit, because clients that time out send their batches again.  The error is retriable, and a retry succeeds
    once there is room.
    """
    monkeypatch.setattr(shard_module, "BYTES_MAX", 5 * (uncommitted.ENTRY_BYTES + 100))
    replicated = Replicated()
    replicated.lead()

    def code() -> int:
        batch = build_batch([(None, b"x" * 30, (), NOW)])
        return append_batch(replicated.shard.partitions[0], batch, NOW).error_code

    codes = [code() for _ in range(20)]
    replicated.answer(SECOND)

    assert 5 <= codes.index(errors.NOT_ENOUGH_REPLICAS) <= 6
    assert {errors.NOT_ENOUGH_REPLICAS} == {*codes[codes.index(errors.NOT_ENOUGH_REPLICAS) :]}
    assert errors.NONE == code()


def test_truncated_entries_no_longer_count_as_uncommitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Truncated entries no longer count as uncommitted; otherwise the replica would accept fewer entries when it leads
    again.
    """
    monkeypatch.setattr(shard_module, "BYTES_MAX", 1_000)
    replicated = Replicated()
    replicated.lead()
    for _ in range(3):
        replicated.append(b"x")
    full = replicated.shard.has_replication_credit
    replicated.shard.receive(
        SECOND, AppendEntries(term=2, prev_index=1, prev_term=1, entries=(_of_another_leader(2, 2),), commit_index=1)
    )

    assert (False, True) == (full, replicated.shard.has_replication_credit)

"""An install between two shards: the leader has dropped its rows before the learner joined."""

from collections import deque
from unittest.mock import patch

import pytest

from tidemill.batches.builder import build_batch
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.model.topic_config import compile_topic_config
from tidemill.raft.message_codec import SNAPSHOT_CHUNK, decode, encode
from tidemill.raft.messages import (
    AppendEntries,
    AppendEntriesResponse,
    Message,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotPull,
)
from tidemill.raft.voters import Membership
from tidemill.shard import catch_up
from tidemill.shard.append import append_own
from tidemill.shard.install import Stage
from tidemill.shard.jobs import Workers
from tidemill.shard.shard import Shard
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.jobs import SimulatedJobs
from tidemill.storage.journal.shard_log import ShardDescriptor
from tidemill.storage.machine.machine_sections import encode_section
from tidemill.storage.recovery import initialize_directory, open_store
from tidemill.storage.store import StoreOptions

LEADER, LEARNER = (ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2))
KEY = b"k" * 16
OPTIONS = StoreOptions(
    journal_first_bytes=1 << 20, journal_file_bytes=1 << 20, journal_bytes_max=4 << 20, tail_entries=2
)
DESCRIPTOR = ShardDescriptor(
    topic_id=TopicId(b"t" * 16),
    first_partition=0,
    partition_count=2,
    feature_level=1,
    membership=Membership((LEADER,), (LEARNER,)),
)


class Side:
    """A broker with one shard.  Messages of the shard wait in `out`."""

    def __init__(self, me: ReplicaKey, disk: SimulatedDisk | None = None) -> None:
        if disk is None:
            disk = SimulatedDisk()
            initialize_directory(disk, KEY, OPTIONS)
        self.me, self.disk = me, disk
        self.store, _ = open_store(disk, KEY, OPTIONS)
        log = self.store.shards.get(ShardId(1)) or self.store.open_shard(ShardId(1), DESCRIPTOR)
        self.out: deque[bytes] = deque()
        self.sent: list[Message] = []
        self.alive: set[ReplicaKey] = set()
        self.jobs = SimulatedJobs()
        self.now_ms = 10_000
        workers = Workers(self.jobs, self.jobs, lambda error: pytest.fail(repr(error)))
        config = compile_topic_config({})
        self.shard = Shard(
            self.store,
            log,
            me,
            "t",
            config,
            wake=lambda: None,
            jitter_ms=lambda: 0,
            transport=self,
            observer=self,
            workers=workers,
        )

    def is_alive(self, voter: ReplicaKey) -> bool:
        return voter in self.alive

    may_lead = is_alive

    def send(self, shard_id: ShardId, to: ReplicaKey, message: Message) -> None:
        self.out.append(b"".join(encode(message)))
        self.sent.append(message)

    def serving_changed(self, shard: Shard) -> None: ...
    def damage_changed(self, shard: Shard) -> None: ...

    def resume(self) -> None:
        """Run until nothing is queued, no write-back is due, and no job is left."""
        for _ in range(100):
            block = self.store.gather()
            if block is not None:
                block.write(self.store.journal)
                for report in self.store.written(block):
                    self.shard.advance(report)
            write_back = self.store.next_write_back(0)
            if write_back is not None:
                write_back.execute(self.disk)
                self.store.write_back_done(write_back)
            if not (self.jobs.step() or block or write_back):
                return

    def tick(self) -> None:
        self.now_ms += 500
        self.shard.tick(self.now_ms, self.now_ms)
        self.resume()

    def write(self, partition: int, value: bytes) -> None:
        append_own(self.shard.partitions[partition], build_batch([(None, value, (), self.now_ms)]), self.now_ms)
        self.resume()

    def values(self, partition: int) -> bytes:
        it = self.shard.partitions[partition]
        data = bytearray()
        offset = it.log_start
        while offset < it.high_watermark:
            found = it.log.read(offset, 1, it.high_watermark, may_wait=True)
            assert found is not None
            data += b"".join(found[0])
            offset += 1
        return bytes(data)


def exchange(leader: Side, learner: Side, turns: int = 12) -> None:
    for _ in range(turns):
        while leader.out or learner.out:
            for side, other in ((leader, learner), (learner, leader)):
                while side.out:
                    other.shard.receive(side.me, decode(memoryview(side.out.popleft())))
                    other.resume()
        leader.tick()
        learner.tick()


@pytest.fixture
def leader() -> Side:
    """A leader that has committed rows and dropped them from memory; the learner is alive from now on."""
    side = Side(LEADER)
    side.tick()
    for number in range(20):
        side.write(number % 2, b"value %d" % number)
    side.resume()
    side.out.clear()
    assert side.shard.log.first_index > 15
    side.alive = {LEARNER}
    return side


def test_a_learner_that_lags_behind_the_rows_installs_a_snapshot_and_follows(leader: Side) -> None:
    """
    The learner is offered a snapshot, pulls it, and has every record up to the high watermark; then it takes rows.
    """
    learner = Side(LEARNER)

    exchange(leader, learner)
    leader.write(0, b"behind the snapshot")
    exchange(leader, learner, turns=2)

    kinds = [type(message) for message in leader.sent]
    assert SnapshotOffer in kinds and kinds.count(SnapshotChunk) == 2
    assert [leader.values(number) for number in (0, 1)] == [learner.values(number) for number in (0, 1)]
    assert [11, 10] == [learner.shard.partitions[number].high_watermark for number in (0, 1)]
    assert Stage.IDLE is learner.shard._install.stage


def test_an_installed_snapshot_survives_a_power_loss(leader: Side) -> None:
    """
    So does its high watermark.
    """
    from tidemill.simulation.machine.crash_fate import ALL_LOST

    learner = Side(LEARNER)
    exchange(leader, learner)

    again = Side(LEARNER, learner.disk.after_power_loss(ALL_LOST))

    assert [leader.values(number) for number in (0, 1)] == [again.values(number) for number in (0, 1)]
    assert again.shard.replica.installing is None


def test_a_restart_in_the_middle_goes_on(leader: Side) -> None:
    """
    The install continues, and the learner is still installing after the restart.
    """
    learner = Side(LEARNER)
    leader.tick()
    while not any(isinstance(message, SnapshotPull) for message in learner.sent):
        for side, other in ((leader, learner), (learner, leader)):
            while side.out and not any(isinstance(message, SnapshotPull) for message in learner.sent):
                other.shard.receive(side.me, decode(memoryview(side.out.popleft())))
                other.resume()
        leader.tick()
        learner.tick()

    again = Side(LEARNER, learner.disk.after_kill())
    installing = again.shard.replica.installing
    exchange(leader, again)

    assert installing is not None
    assert again.shard.replica.installing is None
    assert [leader.values(number) for number in (0, 1)] == [again.values(number) for number in (0, 1)]


def test_a_member_that_installs_a_newer_snapshot_is_not_offered_the_older_one(leader: Side) -> None:
    """
    An earlier leader has offered the newer one; this leader did not know yet that so much was committed.
    """
    leader.alive = set()
    leader.shard.replica.needs_install(LEARNER)
    leader.shard._catch_up.offer(LEARNER)
    leader.write(0, b"behind the snapshot that is kept")
    leader.alive = {LEARNER}
    leader.sent.clear()
    replica = leader.shard.replica
    installing = AppendEntriesResponse(term=replica.term, commit_index=replica.commit_index, is_installing=True)

    leader.shard.receive(LEARNER, installing)
    leader.tick()
    leader.tick()

    assert [replica.commit_index] == [message.index for message in leader.sent if isinstance(message, SnapshotOffer)]


def test_a_chunk_with_wrong_bytes_is_rejected_and_pulled_again(leader: Side) -> None:
    """
    Nothing of a corrupted chunk is written.
    """
    learner = Side(LEARNER)
    spoiled = 0
    for _ in range(30):
        leader.tick()
        learner.tick()
        while leader.out or learner.out:
            while learner.out:
                leader.shard.receive(LEARNER, decode(memoryview(learner.out.popleft())))
                leader.resume()
            while leader.out:
                data = bytearray(leader.out.popleft())
                if data[0] == SNAPSHOT_CHUNK and spoiled < 3:
                    data[-1 - 70 * spoiled] ^= 1
                    spoiled += 1
                learner.shard.receive(LEADER, decode(memoryview(data)))
                learner.resume()

    assert 3 == learner.shard._install.refused
    assert [leader.values(number) for number in (0, 1)] == [learner.values(number) for number in (0, 1)]


def test_rows_are_kept_while_a_live_member_needs_them() -> None:
    """
    They are dropped when the member is not alive any more.
    """
    side = Side(LEADER)
    side.alive = {LEARNER}
    side.tick()
    for number in range(20):
        side.write(0, b"value %d" % number)
    kept = side.shard.log.first_index
    side.alive = set()
    side.tick()
    side.write(0, b"another")
    side.write(0, b"and another")

    assert (1, True) == (kept, side.shard.log.first_index > 15)


def test_a_payload_that_left_memory_is_read_from_the_segment(leader: Side) -> None:
    """
    The bytes are read from the page cache if possible.
    """
    learner = Side(LEARNER)
    exchange(leader, learner)
    learner_alive, leader.alive = leader.alive, set()
    leader.write(0, b"first")
    leader.store.cache.bytes_max = 0
    leader.store.cache.evict()
    leader.alive = learner_alive
    leader.out.clear()

    leader.shard.peer_reconnected(LEARNER)
    exchange(leader, learner, turns=3)

    assert any(isinstance(message, AppendEntries) and message.entries for message in leader.sent)
    assert leader.values(0) == learner.values(0)


def test_an_offer_with_an_unknown_section_is_refused(leader: Side) -> None:
    """
    The member names the machine and version that it needs, and keeps its files.
    """
    unknown = (1).to_bytes(4) + encode_section(3, 7, {0: b"state"})
    learner = Side(LEARNER)

    with patch.object(catch_up, "encode_sections", lambda *_: unknown):
        exchange(leader, learner, turns=3)

    assert "state machine 3 (share partitions), version 7" in (learner.shard.log.damage or "")
    assert not any(isinstance(message, SnapshotPull) for message in learner.sent)
    assert learner.store.shards[ShardId(1)].installing is None


def test_a_member_that_has_a_snapshot_is_not_offered_it_again(leader: Side) -> None:
    """
    The snapshot was taken for another member that still installs it.  This member has it, and the bytes of its next
    entry are gone.  It would acknowledge the same offer at once, and get it again at once, until the other is done.
    """
    asks = AppendEntriesResponse(
        term=leader.shard.replica.term, rejected_index=leader.shard.log.last_index, hint_index=0
    )
    leader.tick()
    leader.tick()
    leader.shard.receive(LEARNER, asks)
    leader.write(0, b"behind the snapshot")
    has = leader.shard.log.last_index
    leader.shard.receive(LEARNER, AppendEntriesResponse(term=leader.shard.replica.term, match_index=has))
    leader.write(1, b"and then")

    leader.shard.replica.needs_install(LEARNER)
    leader.resume()
    leader.shard.execute()

    offers = [message.index for message in leader.sent if isinstance(message, SnapshotOffer)]
    assert offers[0] < has < offers[-1]

"""An install between two replicas of a shard: the leader dropped its rows before the learner joined."""

from unittest.mock import patch

import pytest

from tests.unit.shard.shard_side import LEADER, LEARNER, Side, exchange
from tidemill.model.shard import ShardId
from tidemill.raft.message_codec import SNAPSHOT_CHUNK, decode
from tidemill.raft.messages import (
    AppendEntries,
    AppendEntriesResponse,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotPull,
)
from tidemill.shard import catch_up
from tidemill.shard.install import Stage
from tidemill.storage.machine.machine_sections import encode_section
from tidemill.storage.machine.producer_machine import encode_producers
from tidemill.storage.partition.producer_states import ProducerBatch


@pytest.fixture
def leader() -> Side:
    """A leader that has committed rows and dropped them from memory; it considers the learner alive from then on."""
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
    The learner is offered a snapshot and pulls it.  It then has every record up to the high watermark, and receives
    rows.
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


def test_the_leader_knows_how_much_an_installing_member_lacks(leader: Side) -> None:
    """
    The size of what was not pulled yet falls from all to nothing, chunk by chunk; it is an estimate within a segment.
    """
    learner = Side(LEARNER)
    size = sum(partition.log.size_bytes for partition in leader.shard.partitions.values())
    told: list[int] = []
    leader.tick()
    with patch.object(catch_up, "CHUNK_BYTES", 1):
        for _ in range(60):
            for side, other in ((leader, learner), (learner, leader)):
                while side.out:
                    other.shard.receive(side.me, decode(memoryview(side.out.popleft())))
                    other.resume()
                    missing = leader.shard.missing_bytes(LEARNER)
                    if missing is not None and told[-1:] != [missing]:
                        told.append(missing)
            leader.tick()
            learner.tick()

    assert told[0] == size and told == sorted(told, reverse=True)
    assert len(told) == 20 and 0 < told[-1] < size // 10
    assert leader.shard.missing_bytes(LEARNER) is None  # it follows


def test_an_installed_snapshot_survives_a_power_loss(leader: Side) -> None:
    """
    The records and the high watermark are durable once the install has ended.
    """
    from tidemill.simulation.machine.crash_fate import ALL_LOST

    learner = Side(LEARNER)
    exchange(leader, learner)

    again = Side(LEARNER, learner.disk.after_power_loss(ALL_LOST))

    assert [leader.values(number) for number in (0, 1)] == [again.values(number) for number in (0, 1)]
    assert again.shard.replica.installing is None


def test_a_restart_in_the_middle_goes_on(leader: Side) -> None:
    """
    After a restart in the middle of an install, the learner is still installing, and completes the install.
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
    If a member is already installing a newer snapshot, which an earlier leader offered, this leader does not offer the
    older one that it has kept.  It takes a new snapshot and offers that.
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
    A corrupted chunk is pulled again, and none of its bytes are written.
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
    Rows are kept while a live member needs them, and dropped once that member is no longer alive.
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
    A payload that has left memory is read from its segment, from the page cache if possible.
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
    For an offer with an unknown section, the member reports the machine and the version that it lacks, and keeps its
    files.
    """
    unknown = (1).to_bytes(4) + encode_section(3, 7, {0: b"state"})
    learner = Side(LEARNER)

    with patch.object(catch_up, "encode_sections", lambda *_: unknown):
        exchange(leader, learner, turns=3)

    assert "state machine 3 (share partitions), version 7" in (learner.shard.log.damage or "")
    assert not any(isinstance(message, SnapshotPull) for message in learner.sent)
    assert learner.store.shards[ShardId(1)].installing is None


PRODUCERS = encode_producers({7: (ProducerBatch(0, 0, 0, 0, 1, 2, 10_000),)})


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (encode_section(2, 1, {1: PRODUCERS[:-1]}), "state machine 2 (producer states), partition 1: "),
        (encode_section(2, 1, {1: PRODUCERS + b"x"}), "state machine 2 (producer states), partition 1: 1 B follow"),
        (encode_section(2, 1, {1: encode_producers({7: ()})}), "partition 1: a producer has no batches"),
        (encode_section(2, 1, {4: PRODUCERS}), "state machine 2 (producer states), partition 4: not of this shard"),
        (encode_section(2, 1, {1: PRODUCERS}) + b"x", "1 B follow the last section"),
    ],
    ids=["short", "long", "no batches", "foreign partition", "bytes behind"],
)
def test_an_offer_with_a_corrupt_section_is_refused_before_anything_is_cut(
    leader: Side, sections: bytes, problem: str
) -> None:
    """
    The member refuses the offer, keeps its records and producer states, and reports the machine, the partition and the
    reason.  It installs the leader's next offer, although that offer is for the same snapshot.
    """
    learner = Side(LEARNER)
    exchange(leader, learner)
    leader.alive = set()
    for number in range(20):
        leader.write(number % 2, b"behind %d" % number)
    leader.out.clear()
    leader.alive = {LEARNER}
    values = [learner.values(number) for number in (0, 1)]
    last_index = learner.shard.log.last_index
    log = learner.shard.log
    log.partitions[0].producers.load({9: (ProducerBatch(0, 0, 0, 0, 1, 2, 10_000),)})

    with patch.object(catch_up, "encode_sections", lambda *_: (1).to_bytes(4) + sections):
        exchange(leader, learner, turns=3)

    assert problem in (log.damage or "")
    assert (None, last_index) == (log.installing, log.last_index)
    assert values == [learner.values(number) for number in (0, 1)]
    assert 9 in log.partitions[0].producers
    offered = leader.shard.log.commit_index

    leader.shard._catch_up._snapshot = None  # the leader encodes its state again, without the corruption
    exchange(leader, learner)

    assert (None, offered) == (log.damage, log.last_index)
    assert [leader.values(number) for number in (0, 1)] == [learner.values(number) for number in (0, 1)]
    assert 9 not in log.partitions[0].producers


def test_a_member_that_has_a_snapshot_is_not_offered_it_again(leader: Side) -> None:
    """
    The leader keeps a snapshot that it took for another member, which is still installing it.  This member already has
    that snapshot, but the bytes of its next entry were removed.  If it were offered the same snapshot, it would
    acknowledge the offer immediately and be offered the snapshot again, over and over, until the other member is done.
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


def test_a_learner_that_came_back_waits_until_its_leader_knows_what_is_committed() -> None:
    """
    A leader that has restarted and has committed nothing yet could only offer an empty snapshot.  The install of one
    never ends, and the replica that came back would forget by which entry it votes.
    """
    leader, former = Side(LEADER), Side(LEARNER)
    leader.alive = {LEARNER}
    leader.tick()
    leader.write(0, b"in the former life")
    exchange(leader, former)
    former.store.close_shard(ShardId(1))
    former.resume()
    leader, learner = Side(LEADER, leader.disk.after_kill()), Side(LEARNER, former.disk.after_kill())
    leader.alive = {LEARNER}

    leader.shard.tick(leader.now_ms, leader.now_ms)
    block = leader.store.gather()
    assert block is not None, "it campaigns"
    block.write(leader.store.journal)
    for report in leader.store.written(block):
        leader.shard.advance(report)  # it leads now, and its first entry is not durable yet
    while leader.out:
        learner.shard.receive(LEADER, decode(memoryview(leader.out.popleft())))
        learner.resume()
    while learner.out:
        leader.shard.receive(LEARNER, decode(memoryview(learner.out.popleft())))
    offered_early = [message for message in leader.sent if isinstance(message, SnapshotOffer)]
    leader.resume()
    exchange(leader, learner)

    assert [] == offered_early
    assert learner.shard.replica.installing is None
    assert leader.values(0) == learner.values(0) != b""

"""The broker opens and closes shards as its image requires."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.metadata.topics import DeleteTopics
from tidemill.model.shard import ShardId
from tidemill.raft.messages import AppendEntries, VoteRequest
from tidemill.storage.machine.shard_machine import ShardMachines


def test_a_topic_that_was_created_again_is_open_after_one_image_change() -> None:
    """
    A broker that was isolated may learn in one step that a topic was deleted and that a new one has the same name.  It
    then opens the shards of the new topic.
    """
    world = ClusterWorld()
    world.create("flights")
    before = world[3].shard("flights").shard_id
    world.cut_off(3)
    world.pass_time(3_000)
    world.stopped.add(3)
    deleted: list[Any] = []
    world.controller.broker.controller.submit(DeleteTopics(topics=("flights",))).then(deleted.extend)
    world.until(lambda: bool(deleted), "it is deleted")
    world.create("flights")
    world.stopped.clear()

    world.heal()
    world.until(lambda: world.led_by("flights") != 0, "broker 3 hears who leads")

    assert before != world[3].shard("flights").shard_id == world[1].shard("flights").shard_id


def test_a_damaged_replica_does_not_count_as_electing() -> None:
    """
    While a shard is electing a leader, its broker ticks the shards fifty times a second, which a damaged replica must
    not cause.
    """
    world = ClusterWorld()
    world.create("flights")
    world[3].shard("flights").log.damage = "a segment is missing"
    world[3].shard("flights").needs_tick = True

    world.pass_time(1_000)

    assert not world[3].broker.shard_table.is_electing


def test_only_messages_without_entries_are_kept_for_a_shard_that_is_not_open() -> None:
    """
    Vote requests are kept.  AppendEntries messages are not, because each of them would keep a whole frame in memory.
    Nothing is kept for a shard of a deleted topic, which will never be opened again.
    """
    world = ClusterWorld()
    world.create("flights")
    table, sender = world[3].broker.shard_table, world[1].broker.identity.voter
    gone = world[3].shard("flights").shard_id
    world.controller.broker.controller.submit(DeleteTopics(topics=("flights",)))
    world.until(lambda: gone in world[3].broker.store.closed, "it is closed")
    asks = VoteRequest(term=1, last_index=0, last_term=0)

    table.receive(sender, ShardId(98), AppendEntries(term=1, prev_index=0, prev_term=0, commit_index=0))
    table.receive(sender, ShardId(99), asks)
    table.receive(sender, gone, asks)

    assert {(ShardId(99), sender): asks} == table._early


def test_a_deleted_topic_has_no_leader() -> None:
    """
    The broker that led a deleted topic notifies its peers, which would otherwise regard the shard as led forever.  The
    peers forget the term of the shard, too.
    """
    world = ClusterWorld()
    world.create("flights")
    shard_id = world[1].shard("flights").shard_id
    before = [node.broker.cluster.leaders.leader(shard_id) for node in world.nodes]

    world.controller.broker.controller.submit(DeleteTopics(topics=("flights",)))
    world.pass_time(500)

    assert None not in before
    assert [None] * 3 == [node.broker.cluster.leaders.leader(shard_id) for node in world.nodes]
    kept = [
        table
        for node in world.nodes
        for table in (node.broker.cluster.leaders._own, node.broker.cluster.leaders._terms)
    ]
    assert not any(shard_id in table for table in kept)


@pytest.mark.parametrize("restoring", [(2,), (3,), (2, 3)])
def test_a_replica_whose_state_is_complete_is_elected_first(
    restoring: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that still restores timers could release no record.  It leads if there is no other."""
    world = ClusterWorld()
    world.create("flights")
    world.lead("flights", by=1)
    incomplete = [world[number].shard("flights").log.machines for number in restoring]
    monkeypatch.setattr(ShardMachines, "are_restored", property(lambda machines: machines not in incomplete))

    world.cut_off(1)
    world.until(lambda: world[2].shard("flights").is_serving or world[3].shard("flights").is_serving, "an election")

    leader = 2 if world[2].shard("flights").is_serving else 3
    assert leader not in restoring or len(restoring) == 2


@pytest.mark.parametrize(("absent_ms_max", "is_installed"), [(10_000, False), (0, True)])
def test_a_broker_that_was_away_for_a_moment_gets_entries_rather_than_an_install(
    absent_ms_max: int, is_installed: bool
) -> None:
    world = ClusterWorld()
    for node in world.nodes:
        node.broker.store.options = replace(node.options, tail_entries=2, absent_ms_max=absent_ms_max)
    world.create("flights")
    world.lead("flights", by=1)
    world[1].produce("flights", b"before")
    follower = world[3].shard("flights")
    world.until(lambda: follower.log.last_index == world[1].shard("flights").log.last_index, "broker 3 has it")
    end_index = follower.log.last_index

    world.cut_off(3)
    world.pass_time(3_000)
    for _ in range(20):
        world[1].produce("flights", b"meanwhile")
        world.pass_time(50)  # the rows leave memory when their bytes are in segments

    log = world[1].shard("flights").log
    assert is_installed == (log.first_index > end_index + 1)
    world.heal()
    world.until(lambda: follower.log.commit_index == log.commit_index, "broker 3 has all")

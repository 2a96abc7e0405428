"""Brokers that get no CPU time do not mistake their stall for the silence of peers."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld

STALLED_MS = 6_500  # longer than SILENT_MS and an election together


@pytest.fixture
def world() -> ClusterWorld:
    world = ClusterWorld()
    world.create("flights")
    return world


def terms(world: ClusterWorld) -> dict[int, list[int]]:
    return {
        node.number: [shard.replica.term for shard in node.broker.shard_table.shards.values()] for node in world.nodes
    }


def test_a_stall_of_all_brokers_changes_no_leader(world: ClusterWorld) -> None:
    """
    Brokers that share a host or a disk often stall together.  After a stall, each broker ticks before it reads the
    frames that have arrived in the meantime.
    """
    before = terms(world)

    world.clock.now_ms += STALLED_MS
    for node in world.nodes:
        node.broker.tick()
    told = [node.broker.cluster.has_quorum_contact for node in world.nodes]
    world.pass_time(1_000)

    assert (before, [True] * 3) == (terms(world), told)


def test_a_leader_that_stalls_alone_is_replaced(world: ClusterWorld) -> None:
    """
    The other brokers do not stall, so they notice that the leader is silent.
    """
    before = terms(world)
    world.stopped.add(1)
    world.pass_time(STALLED_MS)
    world.stopped.clear()
    world.pass_time(1_000)

    assert all(now > then for now, then in zip(terms(world)[1], before[1], strict=True))

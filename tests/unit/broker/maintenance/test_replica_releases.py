"""A broker keeps its replica of a shard that moves away until the leader says that it is no longer a member."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.maintenance.planned import plan
from tidemill.broker.maintenance import replica_releases
from tidemill.raft.messages import Released


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> ClusterWorld:
    monkeypatch.setattr(replica_releases, "ASK_MS", 200)
    found = ClusterWorld()
    found.create("flights")
    return found


def is_open(world: ClusterWorld, number: int) -> bool:
    return "flights" in world[number].broker.shard_table.topics


def test_a_replica_that_is_not_planned_goes_and_comes_back(world: ClusterWorld) -> None:
    """Its broker closes it, and opens it again when it is planned again, with an empty log, which the leader fills."""
    before = world[3].shard("flights")
    plan(world, "flights", 1, 2)
    world.until(lambda: not is_open(world, 3), "broker 3 closes its replica")

    plan(world, "flights", 1, 2, 3)
    world.until(lambda: is_open(world, 3), "broker 3 opens a replica again")
    leader = world[1].shard("flights").replica
    world.until(lambda: len(leader.voters) == 3, "the replica votes again")

    assert before is not world[3].shard("flights")


def test_a_replica_is_kept_while_its_leader_is_away(world: ClusterWorld) -> None:
    """The image alone does not close it: an entry of the removal may be on no other disk."""
    world.lead("flights", by=2)
    world.cut_off(2)
    plan(world, "flights", 1, 2)
    world.pass_time(500)
    kept = is_open(world, 3)
    world.heal()

    assert kept
    world.until(lambda: not is_open(world, 3), "broker 3 closes its replica")


def test_a_replica_that_is_planned_again_is_kept(world: ClusterWorld) -> None:
    """A late release alone does not close it, because the plan already names it again."""
    shard = world[3].shard("flights")
    released = Released(term=shard.replica.term, index=shard.log.last_index)

    world[3].broker.shard_table.receive(world[1].broker.identity.voter, shard.shard_id, released)

    assert shard.replica.is_released(released)
    assert is_open(world, 3)


def test_the_last_shard_of_a_broker_may_leave(world: ClusterWorld) -> None:
    """Its leader removes itself, and then closes its replica, too."""
    plan(world, "flights", 3)
    world.until(lambda: is_open(world, 3) and not is_open(world, 1) and not is_open(world, 2), "only broker 3 is left")

    assert world[3].shard("flights").is_serving

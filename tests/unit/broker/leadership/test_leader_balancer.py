"""Leaders go back to where they should be, by themselves."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld

SETTINGS = {"leader.imbalance.check.interval.seconds": "30"}


def moved(**more: str) -> ClusterWorld:
    world = ClusterWorld(static={**SETTINGS, **{key.replace("_", "."): value for key, value in more.items()}})
    world.create("flights", brokers=(3, 1, 2))
    world.lead("flights", by=1)
    return world


def test_a_shard_is_handed_to_its_preferred_leader() -> None:
    """
    At the next check, and not before.
    """
    world = moved()
    before = world.led_by("flights")

    world.pass_time(31_000)

    assert (1, 3) == (before, world.led_by("flights"))


def test_nothing_moves_where_that_is_switched_off() -> None:
    """
    auto.leader.rebalance.enable=false.
    """
    world = moved(auto_leader_rebalance_enable="false")

    world.pass_time(61_000)

    assert 1 == world.led_by("flights")


@pytest.mark.parametrize("fault", ["down", "behind"])
def test_nothing_is_handed_to_one_who_could_not_lead(fault: str) -> None:
    """
    The preferred leader is down, or has to catch up first; when it can, it leads.
    """
    world = moved()
    if fault == "down":
        world.cut_off(3)
    else:
        world.hold(to=[3])
        for _ in range(100):
            world[1].produce("flights", b"a")
        world.pass_time(500)
    leader = next(node for node in world.nodes if node.shard("flights").is_serving)
    term = leader.shard("flights").replica.term
    assert leader.broker.leadership_transfers.here([(leader.shard("flights").shard_id, world[3].broker.broker_id)])

    world.network.held = lambda _source, _destination: False
    world.heal()
    world.pass_time(35_000)

    assert 3 == world.led_by("flights")
    assert world[3].shard("flights").replica.term > term

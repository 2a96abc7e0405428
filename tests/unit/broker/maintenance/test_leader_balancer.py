"""Leadership returns to preferred leaders automatically."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.share_member import STATIC, WAIT_MS, Got, ShareMember, configure_group

SETTINGS = {"leader.imbalance.check.interval.seconds": "30"}


def moved(**more: str) -> ClusterWorld:
    world = ClusterWorld(static={**SETTINGS, **{key.replace("_", "."): value for key, value in more.items()}})
    world.create("flights", brokers=(3, 1, 2))
    world.lead("flights", by=1)
    return world


def test_leadership_is_transferred_to_the_preferred_leader() -> None:
    """
    If the preferred leader of a shard does not lead it, leadership is transferred to it at the next check, and not
    earlier.
    """
    world = moved()
    before = world.led_by("flights")

    world.pass_time(31_000)

    assert (1, 3) == (before, world.led_by("flights"))


def test_no_leader_moves_when_balancing_is_switched_off() -> None:
    """
    auto.leader.rebalance.enable=false switches balancing off.
    """
    world = moved(auto_leader_rebalance_enable="false")

    world.pass_time(61_000)

    assert 1 == world.led_by("flights")


@pytest.mark.parametrize("fault", ["down", "behind"])
def test_no_leadership_is_transferred_to_a_broker_that_cannot_lead(fault: str) -> None:
    """
    The preferred leader is down or has not caught up yet.  Once it can lead, leadership is transferred to it.
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


def test_a_shard_with_held_records_is_left_to_the_next_check() -> None:
    """
    The next leader would deliver again what consumers hold.  A queue that is always in use moves nevertheless.
    """
    world = ClusterWorld(static={**STATIC, **SETTINGS})
    world.create("jobs", brokers=(3, 1, 2))
    world.lead("jobs", by=1)
    configure_group(world[1], share_auto_offset_reset="earliest", share_record_lock_duration_ms="60000")
    consumer = ShareMember(world[1])
    consumer.join("jobs")
    world[1].produce("jobs", b"a")
    world.pass_time(25_000)
    assert [Got(0, b"a", 1)] == consumer.receive(max_wait_ms=WAIT_MS)

    world.pass_time(10_000)
    after_one_check = world.led_by("jobs")
    world.pass_time(30_000)

    assert (1, 3) == (after_one_check, world.led_by("jobs"))

"""Leadership is transferred only to a broker that can lead."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId


@pytest.mark.parametrize("to", [2, 3])
def test_the_requested_broker_becomes_leader(to: int) -> None:
    """
    Leadership goes to the requested broker even if another one has caught up as well.
    """
    world = ClusterWorld()
    world.create("flights")
    shard_id = world[1].shard("flights").shard_id

    refused = world[1].broker.leadership_transfers.here([(shard_id, BrokerId(to))])
    world.stabilize()

    assert ([], to) == (refused, world.led_by("flights"))


def test_impossible_transfers_are_refused() -> None:
    """
    A transfer is refused if the shard is led by another broker or does not exist, or if the requested broker is not a
    voter or is down.
    """
    world = ClusterWorld()
    world.create("flights")
    shard_id = world[1].shard("flights").shard_id
    world.cut_off(3)
    asked = [(shard_id, BrokerId(9)), (shard_id, BrokerId(3)), (ShardId(999), BrokerId(2))]

    refused = world[1].broker.leadership_transfers.here(asked) + world[2].broker.leadership_transfers.here(
        [(shard_id, BrokerId(2))]
    )
    world.stabilize()

    assert [shard_id, shard_id, 999, shard_id] == refused
    assert world[1].shard("flights").is_serving


def test_a_lagging_replica_does_not_receive_leadership() -> None:
    """
    Leadership is not transferred to a replica that lags, because clients would have to wait until it has caught up.
    """
    world = ClusterWorld()
    world.create("flights")
    world.hold(to=[2])
    for _ in range(100):
        world[1].produce("flights", b"a")
    shard_id = world[1].shard("flights").shard_id

    refused = world[1].broker.leadership_transfers.here([(shard_id, BrokerId(2))])

    assert [shard_id] == refused


def test_a_leader_whose_transfer_fails_goes_on_leading() -> None:
    """
    A leader whose transfer fails accepts no new records during the transfer, and accepts them again afterwards.
    """
    world = ClusterWorld()
    world.create("flights")
    shard = world[1].shard("flights")
    world.pass_time(10_000)  # idle shards are not ticked, so the time that they know is outdated
    world.hold(to=[2])
    world.begin_to_lead("flights", by=2)
    during = [shard.accepts_writes]
    world.pass_time(1_000)
    during.append(shard.accepts_writes)

    for _ in range(4):
        world.pass_time(500)
        # A repeated request does not extend the transfer.
        assert shard.accepts_writes or shard.transfer_leadership(world[2].broker.identity.voter)

    assert ([False, False], True, True) == (during, shard.accepts_writes, shard.is_serving)

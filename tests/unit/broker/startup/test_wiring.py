"""How a broker joins a cluster, and how it starts with a damaged journal."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld, Node, endpoints_of
from tidemill.broker.peers.cluster import peer_addresses
from tidemill.broker.startup import wiring
from tidemill.metadata.feature_levels import NEWEST
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import NOTHING
from tidemill.model.shard import METADATA_SHARD
from tidemill.peer import join
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage.data_directory import DirectoryProblem, read_identity, write_identity
from tidemill.storage.recovery import JournalDamaged


def test_a_broker_that_joins_at_a_follower_finds_the_controller() -> None:
    """
    A joining broker that only has the address of broker 1 is admitted, although broker 2 leads the metadata shard and
    no broker is connected to all the others.
    """
    world = ClusterWorld()
    metadata = world[1].broker.shard_table.shards[METADATA_SHARD]
    assert metadata.transfer_leadership(world[2].broker.identity.voter)
    world.until(lambda: world[2].broker.controller.leads, "broker 2 leads the metadata")

    Node(world, 4, NOTHING)

    assert world[4].broker.is_ready
    assert set(world[4].broker.image.brokers) == {1, 2, 3, 4}


def test_a_broker_hears_only_of_the_addresses_of_others() -> None:
    """
    The controller tells a joining broker only the addresses of the others, because the address that is registered for
    that broker itself may date from before its restart.  A ready broker dials only the addresses in its image and in
    tidemill.join.
    """
    world = ClusterWorld()
    identity = world[2].broker.identity
    request = join.Request(
        directory_id=identity.directory_id, broker_id=identity.broker_id, was_admitted=True, level=NEWEST
    )
    outcomes: list[Any] = []

    world[2].broker.cluster.peers.ask(world[1].broker.identity.voter, join.API, request, outcomes.append)
    world.until(lambda: bool(outcomes), "the controller answers")

    addresses = {number: peer_addresses(endpoints_of(number)) for number in (1, 2, 3)}
    assert sorted(addresses[1] + addresses[3]) == sorted(outcomes[0].peers)
    assert [()] * 3 == [world[number].broker.cluster.heard_of for number in (1, 2, 3)]


def with_rot_in_the_journal(world: BrokerWorld) -> SimulatedDisk:
    """Return the disk with a damaged first block.  Later blocks confirm that this block was synced, so it is not a torn
    tail.
    """
    disk = world.disk.after_kill()
    disk.flip("journal/00000001.journal", 20)
    return disk


def test_a_single_broker_with_a_damaged_journal_does_not_start() -> None:
    """
    A single broker with a damaged journal does not start, because no other broker has the data.  The error message says
    what to do, and no file is changed.
    """
    world = BrokerWorld()
    world.create("flights")
    disk = with_rot_in_the_journal(world)
    before = disk.list("")

    with pytest.raises(JournalDamaged, match=r"nothing was changed.*tidemill\.join"):
        asyncio.run(wiring.open_directory(disk, None, (), world._machine(), world.options))

    assert before == disk.list("")


def test_a_damaged_broker_that_joins_another_cluster_keeps_its_files() -> None:
    """
    A damaged broker whose settings name another cluster does not start, because that cluster has none of its data.  No
    file is changed.
    """
    alone = BrokerWorld()
    alone.create("flights")
    disk = with_rot_in_the_journal(alone)
    identity = read_identity(disk)
    assert identity is not None
    write_identity(disk, replace(identity, broker_id=BrokerId(4)))  # broker 1 is alive in the other cluster
    before = disk.list("")

    with pytest.raises(DirectoryProblem, match=f"belongs to {identity.cluster_id}: name a broker of that one"):
        Node(ClusterWorld(), 4, NOTHING, disk)

    assert before == disk.list("")

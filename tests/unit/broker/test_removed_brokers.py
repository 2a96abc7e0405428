"""What the brokers of a cluster do when one of them is removed for good."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tidemill.metadata.growth import metadata_learners
from tidemill.metadata.unregistration import UnregisterBroker
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import METADATA_SHARD
from tidemill.storage.data_directory import WrongDirectory

FOUR = BrokerId(4)


@pytest.fixture
def world() -> ClusterWorld:
    """Return a cluster from which broker 4 has been removed: it carried nothing, and was down."""
    world = ClusterWorld(brokers=4)
    world.cut_off(4)
    world.stopped.add(4)
    world.until(lambda: FOUR not in world.controller.broker.cluster.live(), "broker 4 is down")
    answers: list[Any] = []
    world.controller.broker.controller.submit(UnregisterBroker(broker_id=FOUR, carrying=())).then(answers.append)
    world.until(lambda: bool(answers), "it is decided")
    assert answers[0].problem is None
    world.until(lambda: all(FOUR not in node.broker.image.brokers for node in remaining(world)), "all are told")
    return world


def remaining(world: ClusterWorld) -> list[Node]:
    return world.nodes[:3]


def test_the_other_brokers_forget_a_removed_broker(world: ClusterWorld) -> None:
    """They neither connect to it nor list it, and their clocks do not count on its clock."""
    world.pass_time(1_000)

    for node in remaining(world):
        cluster = node.broker.cluster
        assert all(world[4].address not in links._wanted for links in node.links)
        assert (cluster.is_listed(FOUR), cluster.is_up(FOUR), cluster.unheard) == (False, False, ())
        assert world[4].broker.identity.voter not in cluster.clocks.offsets()


def test_the_metadata_shard_has_no_member_on_a_removed_broker(world: ClusterWorld) -> None:
    """Every broker of the image is a voter or a learner of the metadata shard, and a removed one is in no image."""
    world.pass_time(2_000)

    membership = world.controller.broker.shard_table.shards[METADATA_SHARD].replica.membership
    assert (membership.learners, metadata_learners(world.controller.broker.image)) == ((), ())
    assert world[4].broker.identity.voter not in membership.members


def test_a_removed_broker_is_told_to_start_empty(world: ClusterWorld) -> None:
    """
    Its own metadata still has it.  It must find out from the others that it is no member of the cluster any more, and
    its message must say what to do.
    """
    world.heal()
    world.stopped.clear()

    with pytest.raises(WrongDirectory, match=r"broker 4 was never admitted .*start it on an empty directory"):
        world.restart(4)


@pytest.fixture
def revived(world: ClusterWorld) -> ClusterWorld:
    """Return a cluster to which the process of the removed broker is connected again: it has only been stopped."""
    world.heal()
    world.stopped.clear()
    key = world[4].broker.identity.voter
    world.until(lambda: all(node.broker.cluster.is_alive(key) for node in remaining(world)), "it sends heartbeats")
    return world


@pytest.mark.parametrize(
    "found",
    [
        lambda cluster: cluster.live(),
        lambda cluster: cluster.supported_levels(),
        lambda cluster: cluster.unheard_by_peers(),
    ],
    ids=["live", "supported_levels", "unheard_by_peers"],
)
def test_the_process_of_a_removed_broker_does_not_count(revived: ClusterWorld, found: Callable[[Any], Any]) -> None:
    """
    Its metadata is outdated for ever.  It does not know of brokers that came later, so it never says that it does not
    hear one of them, and none of these would ever be silent.
    """
    counted = [set(found(node.broker.cluster)) for node in remaining(revived)]

    assert all(FOUR not in brokers and len(brokers) >= 2 for brokers in counted)

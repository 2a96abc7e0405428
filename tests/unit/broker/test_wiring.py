"""A broker comes up, whoever leads."""

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tidemill.model.config_resolution import NOTHING
from tidemill.model.shard import METADATA_SHARD


def test_who_joins_by_way_of_a_follower_finds_the_controller() -> None:
    """
    It was told of broker 1, and 2 leads the metadata: nobody has a link to both of them before.
    """
    world = ClusterWorld()
    metadata = world[1].broker.shard_table.shards[METADATA_SHARD]
    assert metadata.hand_over(world[2].broker.identity.voter)
    world.until(lambda: world[2].broker.controller.leads, "broker 2 leads the metadata")

    Node(world, 4, NOTHING)

    assert world[4].broker.is_ready
    assert set(world[4].broker.image.brokers) == {1, 2, 3, 4}

"""A cluster in which the coordinator of a share group and the leader of its topic are different brokers."""

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.share_member import STATIC
from tidemill.model.topic import OFFSETS_TOPIC
from tidemill.wire.messages import find_coordinator


def sharing_cluster() -> ClusterWorld:
    """Return a cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs`."""
    made = ClusterWorld(static={**STATIC, "offsets.topic.num.partitions": "1"})
    made.create("jobs", brokers=(2, 1, 3))
    made[1].ask(find_coordinator.Request(coordinator_keys=["g"]))
    made.until(lambda: made.led_by(OFFSETS_TOPIC) != 0, "the group's partition is led")
    made.lead(OFFSETS_TOPIC, by=1)
    made.lead("jobs", by=2)
    return made


def elect_another(world: ClusterWorld) -> int:
    """Wait until another broker than 2 leads the topic `jobs`, and return its number."""
    world.until(lambda: world[3].shard("jobs").is_serving or world[1].shard("jobs").is_serving, "another leader")
    return 3 if world[3].shard("jobs").is_serving else 1

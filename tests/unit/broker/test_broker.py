"""Waiting for the leaders of new and deleted topics, and metadata that cannot be read."""

from unittest.mock import patch

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.metadata.topics import CreateTopics, DeleteTopics, NewTopic
from tidemill.model.shard import METADATA_SHARD
from tidemill.storage.partition.segment import SegmentDamaged


def test_a_wait_for_a_leader_that_begins_before_its_first_commit_ends() -> None:
    """
    The entry that confirms the leader's term can already be appended when the wait begins.  Its commit must end the
    wait, because there need not be any later entry.
    """
    world = BrokerWorld()
    called: list[str] = []
    topic = NewTopic(name="flights", partition_count=1, replication_factor=1)
    world.broker.controller.submit(CreateTopics(topics=(topic,)))
    while not (world.broker.shard_table.topics.get("flights") and world.partition("flights").shard.replica.leads):
        assert world.step()
    assert not world.partition("flights").shard.is_serving

    world.broker.cluster.when_led(["flights"], lambda: called.append("led"))
    world.stabilize()

    assert ["led"] == called


def test_a_wait_for_the_leader_of_a_deleted_topic_ends() -> None:
    """
    A deleted topic never gets a leader, so the wait ends when its time limit is reached.
    """
    world = BrokerWorld()
    called: list[str] = []
    topic = NewTopic(name="flights", partition_count=20, replication_factor=1)
    world.broker.controller.submit(CreateTopics(topics=(topic,)))
    while not world.broker.shard_table.topics.get("flights"):
        assert world.step()
    world.broker.cluster.when_led(["flights"], lambda: called.append("led"))

    world.broker.controller.submit(DeleteTopics(topics=("flights",)))
    world.pass_time(10_000)

    assert ["led"] == called


def test_a_topic_that_was_deleted_and_created_again_is_open_after_one_image_change() -> None:
    """
    A lagging broker may learn of both changes from a single image: it closes the shards of the old topic and keeps
    those of the new one.
    """
    world = BrokerWorld()
    world.create("flights")
    before, follow = world.broker.image, world.broker.image_follower.on_image
    assert follow is not None
    world.broker.image_follower.on_image = lambda *_: None
    world.broker.controller.submit(DeleteTopics(topics=("flights",)))
    world.stabilize()
    world.broker.controller.submit(
        CreateTopics(topics=(NewTopic(name="flights", partition_count=3, replication_factor=1),))
    )
    world.stabilize()

    follow(before, world.broker.image)
    world.stabilize()

    assert [0, 1, 2] == [*world.broker.shard_table.topics["flights"]]
    assert all(world.partition("flights", number).shard.is_serving for number in range(3))


def test_metadata_that_cannot_be_read_ends_the_process() -> None:
    """
    A broker that cannot read the metadata log ends its process, because it would use stale metadata otherwise.  It
    reports the damage at its next start.
    """
    world = BrokerWorld()
    world.create("flights")
    log = world.broker.shard_table.shards[METADATA_SHARD].partitions[0].log
    damaged = SegmentDamaged("0.log", 0, 0, "the CRC of the batch does not match")

    world.broker.controller.submit(DeleteTopics(topics=("flights",)))
    ended: list[BaseException] = []
    with (
        patch.object(type(log), "read", side_effect=damaged),
        patch.object(world.broker.image_follower, "_failed", ended.append),
    ):
        world.stabilize()

    assert damaged in ended

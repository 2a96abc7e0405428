"""DescribeQuorum returns the voters of the metadata shard and their progress."""

from typing import Any

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.wire.messages.describe_quorum import Request


def asked(world: ClusterWorld, number: int, topic: str = "__cluster_metadata", partition: int = 0) -> Any:
    topics = [Request.Topic(topic_name=topic, partitions=[Request.Topic.Partition(partition_index=partition)])]
    return world[number].client.ask(Request(topics=topics), 2)


@pytest.mark.parametrize("topic", ["__cluster_metadata", METADATA_TOPIC])
@pytest.mark.parametrize("number", [1, 3])
def test_any_broker_describes_the_quorum(topic: str, number: int) -> None:
    """
    Every broker describes the quorum, even if the request uses Kafka's name for the metadata topic.  In this test,
    every replica has caught up, and the leader has recently heard from it.
    """
    world = ClusterWorld()
    world.pass_time(1_000)

    answered = asked(world, number, topic)

    (partition,) = answered.topics[0].partitions
    replica = world[1].broker.shard_table.shards[0].replica
    assert (errors.NONE, 1, replica.term) == (partition.error_code, partition.leader_id, partition.leader_epoch)
    assert {(voter, partition.high_watermark) for voter in (1, 2, 3)} == {
        (it.replica_id, it.log_end_offset) for it in partition.current_voters
    }
    now_ms = world.clock.now_ms
    assert all(now_ms - it.last_fetch_timestamp <= 500 for it in partition.current_voters)
    assert all(now_ms - it.last_caught_up_timestamp <= 500 for it in partition.current_voters)
    assert {1: 9301, 2: 9302, 3: 9303} == {node.node_id: node.listeners[0].port for node in answered.nodes}


def test_a_silent_voter_falls_behind() -> None:
    """
    For a silent voter, the response has its end offset, when the leader last heard from it, and when it was last caught
    up.
    """
    world = ClusterWorld()
    world.pass_time(1_000)
    world.cut_off(3)
    cut_at_ms = world.clock.now_ms
    world.stopped.add(3)
    world.pass_time(1_000)
    world.create("flights", brokers=(2, 1))

    (partition,) = asked(world, 1).topics[0].partitions

    third = next(it for it in partition.current_voters if it.replica_id == 3)
    assert third.log_end_offset < partition.high_watermark
    assert third.last_fetch_timestamp <= cut_at_ms
    assert third.last_caught_up_timestamp <= cut_at_ms


def test_a_learner_is_an_observer() -> None:
    """
    In a cluster of two brokers, the metadata shard has one voter, because two would tolerate no more failures than one.
    The other broker is a learner, which the response lists as an observer.
    """
    world = ClusterWorld(brokers=2)
    world.pass_time(1_000)

    (partition,) = asked(world, 2).topics[0].partitions

    assert ([1], [2]) == (
        [it.replica_id for it in partition.current_voters],
        [it.replica_id for it in partition.observers],
    )


def test_only_the_metadata_log_has_a_quorum() -> None:
    """
    Any topic or partition other than the metadata log gets UNKNOWN_TOPIC_OR_PARTITION.
    """
    world = ClusterWorld()

    codes = [
        asked(world, 2, *it).topics[0].partitions[0].error_code for it in (("flights", 0), ("__cluster_metadata", 1))
    ]

    assert [errors.UNKNOWN_TOPIC_OR_PARTITION] * 2 == codes

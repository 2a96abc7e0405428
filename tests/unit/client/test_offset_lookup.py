"""Offsets can be looked up even while leadership moves between brokers."""

import pytest

from tests.unit.client.fake_cluster import FakeCluster, Partition, Topic
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import UnknownTopic
from tidemill.client.offset_lookup import EARLIEST, LATEST, NO_MATCH, look_up
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import list_offsets
from tidemill.wire.schema import Message

T0 = TopicPartition("t", 0)


def looked_up(cluster: FakeCluster, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    metadata = ClusterMetadata(cluster.settings())
    try:
        metadata.refresh({partition.topic for partition in wanted})
        return look_up(metadata, wanted)
    finally:
        metadata.close()


def test_offsets_of_both_ends_and_of_timestamps_are_found():
    """
    The lookup finds the offsets of both ends and of timestamps.  A timestamp after the last record has no offset.
    """
    with FakeCluster() as cluster:
        cluster.partition.append_records([b"a", b"b"], timestamp=1_000)
        cluster.partition.append_records([b"c"], timestamp=2_000)
        found = [looked_up(cluster, {T0: position})[T0] for position in (EARLIEST, LATEST, 1_500, 9_999)]

    assert [0, 3, 2, NO_MATCH] == found


def test_each_leader_is_asked_for_its_own_partitions():
    """
    The client asks each leader for all the partitions that it leads in one request, and merges the responses.
    """
    with FakeCluster(broker_count=2) as cluster:
        cluster.topics["t"] = Topic(partitions={0: Partition(leader=1), 1: Partition(leader=2)})
        cluster.topics["t"].partitions[1].append_records([b"a"])
        found = looked_up(cluster, {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): LATEST})

        assert ({TopicPartition("t", 0): 0, TopicPartition("t", 1): 1}, 2) == (found, cluster.count("list_offsets"))


def test_a_leader_that_moved_is_found():
    """
    After NOT_LEADER_OR_FOLLOWER, the client refreshes its metadata and asks the new leader.
    """
    with FakeCluster(broker_count=2) as cluster:

        def move(broker_id: int, name: str, request: Message) -> Message | None:
            if isinstance(request, list_offsets.Request):
                cluster.partition.leader = 2
            return None

        cluster.hook = move

        assert {T0: 0} == looked_up(cluster, {T0: LATEST})


def test_the_lookup_waits_for_an_election():
    """
    The lookup waits for a leader to be elected, and fails only at the deadline.
    """
    with FakeCluster() as cluster:
        cluster.partition.leader = None

        def elect(broker_id: int, name: str, request: Message) -> Message | None:
            if cluster.count("metadata") > 2:
                cluster.partition.leader = 1
            return None

        cluster.hook = elect

        assert {T0: 0} == looked_up(cluster, {T0: LATEST})


def test_a_topic_that_does_not_exist_fails_without_retry():
    """
    The lookup of a topic that does not exist fails without a retry, because retries would not create it.
    """
    with FakeCluster() as cluster, pytest.raises(UnknownTopic, match=r"'nowhere'.*check its name"):
        looked_up(cluster, {TopicPartition("nowhere", 0): LATEST})


def test_a_permanent_error_is_not_retried():
    """
    A permanent error, such as a missing permission, is not retried.
    """
    with FakeCluster() as cluster:

        def refuse(broker_id: int, name: str, request: Message) -> Message | None:
            if not isinstance(request, list_offsets.Request):
                return None
            answer = list_offsets.Response.Topic.Partition(
                partition_index=0, error_code=errors.TOPIC_AUTHORIZATION_FAILED
            )
            return list_offsets.Response(topics=[list_offsets.Response.Topic(name="t", partitions=[answer])])

        cluster.hook = refuse
        with pytest.raises(Exception, match="TOPIC_AUTHORIZATION_FAILED"):
            looked_up(cluster, {T0: LATEST})

        assert 1 == cluster.count("list_offsets")

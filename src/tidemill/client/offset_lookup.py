"""Looks up offsets: the start or end of a partition, or the first record at or after a timestamp."""

from collections.abc import Mapping
from typing import Final

from tidemill.client.cluster_metadata import ClusterMetadata, LeaderUnknown
from tidemill.client.failures import BrokerUnreachable, ClientError
from tidemill.model import errors
from tidemill.model.broker_id import CONSUMER_REPLICA_ID
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import list_offsets

LATEST: Final = -1
EARLIEST: Final = -2
NO_MATCH: Final = -1  # the result for a timestamp later than that of every record

LEADER_MOVED: Final = frozenset(
    {
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.LEADER_NOT_AVAILABLE,
        errors.UNKNOWN_TOPIC_OR_PARTITION,  # also returned by a broker that does not know a new partition yet
        errors.UNKNOWN_LEADER_EPOCH,
        errors.FENCED_LEADER_EPOCH,
        errors.REPLICA_NOT_AVAILABLE,
        errors.OFFSET_NOT_AVAILABLE,
        errors.KAFKA_STORAGE_ERROR,
        errors.REQUEST_TIMED_OUT,
        errors.NETWORK_EXCEPTION,
        errors.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors after which the client refreshes its metadata, because the leader may have changed."""


def look_up(cluster: ClusterMetadata, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """
    Return an offset for each partition in `wanted`.

    Each value of `wanted` is EARLIEST, LATEST or a timestamp in milliseconds.  The result for a timestamp is NO_MATCH
    if no record has that timestamp or a later one.  Under read_committed, LATEST means the last stable offset.

    Raise UnknownTopic, RetriesExhausted, or ClientError if a broker refuses the request.
    """
    found: dict[TopicPartition, int] = {}
    back_off = cluster.back_off()
    is_stale = False
    while True:
        left = {partition: position for partition, position in wanted.items() if partition not in found}
        if not left:
            return found
        try:
            if is_stale:
                cluster.refresh({partition.topic for partition in wanted})
            failure = _look_up_once(cluster, left, found)
        except (BrokerUnreachable, LeaderUnknown) as error:
            failure = error
        if failure is not None:
            back_off.pause(failure)
            is_stale = True


def _look_up_once(
    cluster: ClusterMetadata, wanted: Mapping[TopicPartition, int], found: dict[TopicPartition, int]
) -> ClientError | None:
    """Add the offsets of one round of requests to `found`.  Return a retriable failure, or None."""
    by_broker: dict[int, list[TopicPartition]] = {}
    for partition in wanted:
        by_broker.setdefault(cluster.leader(partition).broker_id, []).append(partition)
    failure: ClientError | None = None
    for broker_id, partitions in by_broker.items():
        request = _request(cluster, {partition: wanted[partition] for partition in partitions})
        response = cluster.connection_to(broker_id).request(list_offsets.API, request)
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(topic.name, answer.partition_index)
                if answer.error_code == errors.NONE:
                    found[partition] = answer.offset
                    continue
                problem = ClientError(
                    f"the offset of {partition.topic}-{partition.partition} could not be looked up: "
                    f"{errors.name(answer.error_code)}"
                )
                if answer.error_code not in LEADER_MOVED:
                    raise problem
                failure = problem
    return failure


def _request(cluster: ClusterMetadata, wanted: Mapping[TopicPartition, int]) -> list_offsets.Request:
    by_topic: dict[str, list[list_offsets.Request.Topic.Partition]] = {}
    for partition, position in wanted.items():
        by_topic.setdefault(partition.topic, []).append(
            list_offsets.Request.Topic.Partition(
                partition_index=partition.partition,
                current_leader_epoch=cluster.leader(partition).epoch,
                timestamp=position,
            )
        )
    return list_offsets.Request(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=int(cluster.settings.is_read_committed),
        topics=[list_offsets.Request.Topic(name=name, partitions=parts) for name, parts in by_topic.items()],
        timeout_ms=cluster.settings.request_timeout_ms,
    )

"""A partition as clients see it: its leader, its replicas, and which of them are in sync or offline.

A leader and its epoch are one pair, and a leader is never shown with another leader's epoch: clients ignore epochs
older than the newest one that they know.  While no leader that the client can reach is known, the epoch is -1,
and the error is LEADER_NOT_AVAILABLE.
"""

from collections.abc import Collection
from dataclasses import dataclass

from tidemill.broker.peers.cluster import Cluster
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, broker_ids

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as clients see it.  `in_sync` is only for people and tools; leaders count majorities instead."""

    error_code: int
    leader_id: int
    leader_epoch: int
    replicas: list[BrokerId]  # as planned, preferred leader first; then those that are to go and still count
    in_sync: list[BrokerId]
    offline: list[BrokerId]


def partition_view(
    image: ClusterImage, cluster: Cluster, topic: Topic, number: int, listed: Collection[int]
) -> PartitionView:
    """
    Return the view of one partition.  `listed` holds the brokers whose endpoints are in the response; no other broker
    is returned as the leader.
    """
    shard_id = topic.shard_of(number)
    assert shard_id is not None, f"partition {number} of {topic.name} is in no shard"
    planned = image.shards[shard_id]
    leader = cluster.leader(shard_id)
    if leader is not None and leader.broker_id not in listed:
        leader = None
    leaving = cluster.leaving(planned)
    return PartitionView(
        error_code=errors.NONE if leader else errors.LEADER_NOT_AVAILABLE,
        leader_id=leader.broker_id if leader else NO_LEADER,
        leader_epoch=leader.term if leader else NO_LEADER,
        replicas=broker_ids(planned.replicas) + leaving,
        in_sync=cluster.in_sync(planned) + leaving,
        offline=[voter.broker_id for voter in planned.replicas if not cluster.has(voter)],
    )

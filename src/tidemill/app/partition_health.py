"""Counts the unhealthy partitions that one broker knows of.

Only the leader of a partition knows which of its replicas are in sync, so each broker counts the partitions that it
leads, and the cluster's count is the sum over all brokers.  Partitions without a leader are counted by every broker.
"""

from collections import Counter
from dataclasses import dataclass

from tidemill.broker.broker import Broker


@dataclass(slots=True)
class PartitionHealth:
    led: int = 0
    under_replicated: int = 0
    """Partitions led by this broker with fewer replicas in sync than planned."""
    under_min_insync: int = 0
    """
    Partitions led by this broker with fewer voters in sync than `min.insync.replicas`: writes with acks=all fail.  As
    long as replicas move, their voters in force count, as they do for writes.
    """
    damaged: int = 0
    """Partitions whose replica on this broker is out of use, because its files are damaged."""
    leaderless: int = 0
    """Partitions of the entire cluster without a leader that is up, as far as this broker knows."""


def partition_health(broker: Broker) -> PartitionHealth:
    """Count the partitions.  The console calls this in worker threads, so shards may be opened and closed meanwhile."""
    image, cluster = broker.image, broker.cluster
    lagging = Counter(shard_id for shard_id, _ in cluster.out_of_sync)
    health = PartitionHealth()
    for shard_id, shard in [*broker.shard_table.shards.items()]:
        count = len(shard.released)
        if shard.log.damage is not None:
            health.damaged += count
        planned = image.shards.get(shard_id)
        if planned is None or not shard.is_serving:
            continue
        health.led += count
        if lagging[shard_id]:
            health.under_replicated += count
        in_sync, voters = len(cluster.voters_in_sync(shard_id)), len(shard.replica.voters)
        first = shard.partitions.get(planned.first_partition)
        if first is not None and in_sync < min(first.config.min_insync_replicas, voters):
            health.under_min_insync += count
    leaderless = (image.shards.get(shard_id) for shard_id in cluster.leaderless())
    health.leaderless = sum(planned.partition_count for planned in leaderless if planned is not None)
    return health

"""Which partitions make a shard, and which brokers carry it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidemill.model.broker_id import Voter

PARTITIONS_PER_SHARD_MAX: Final = 16  # one vote and one row sequence serve so many; a hot shard can still be split


class ShardPlan(NamedTuple):
    first_partition: int
    partition_count: int
    voters: tuple[Voter, ...]


def shard_count(partition_count: int, broker_count: int) -> int:
    """Enough shards that every broker can lead one, and that none has more partitions than one shard should."""
    return max(min(partition_count, broker_count), -(-partition_count // PARTITIONS_PER_SHARD_MAX))


def place(
    *, first_partition: int, partition_count: int, replication_factor: int, brokers: Sequence[Voter], turn: int
) -> tuple[ShardPlan, ...]:
    """Contiguous ranges of nearly one size; their voters go round the brokers, beginning at `turn`."""
    assert 1 <= replication_factor <= len(brokers), (replication_factor, len(brokers))
    plans = []
    shards = shard_count(partition_count, len(brokers))
    smaller, bigger_shards = divmod(partition_count, shards)
    start = first_partition
    for index in range(shards):
        size = smaller + (index < bigger_shards)
        voters = tuple(brokers[(turn + index + place) % len(brokers)] for place in range(replication_factor))
        plans.append(ShardPlan(start, size, voters))
        start += size
    return tuple(plans)


def place_as_told(*, first_partition: int, assignments: Sequence[tuple[Voter, ...]]) -> tuple[ShardPlan, ...]:
    """One shard for each run of partitions that were assigned to the same brokers, up to a shard's size."""
    plans: list[ShardPlan] = []
    for partition, voters in enumerate(assignments, first_partition):
        last = plans[-1] if plans else None
        if last is not None and last.voters == voters and last.partition_count < PARTITIONS_PER_SHARD_MAX:
            plans[-1] = last._replace(partition_count=last.partition_count + 1)
        else:
            plans.append(ShardPlan(partition, 1, voters))
    return tuple(plans)

"""Divides partitions into shards and assigns each shard its replicas.

As in Kafka, the replicas of a shard are spread over as many racks as possible, as evenly as possible; all brokers
without a rack count as one rack.  Unlike Kafka, which takes brokers in turn from a random start, placement prefers the
least loaded brokers: the broker that leads the fewest shards becomes the preferred leader of the next shard, and the
brokers that carry the fewest replicas become its followers.  Brokers that are gone or drained, and brokers that are
down, are chosen last.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tidemill.model.broker_id import BrokerId, ReplicaKey

PARTITIONS_PER_SHARD_MAX: Final = 16  # the partitions of a shard share one leader and one log


class ShardPlan(NamedTuple):
    first_partition: int
    partition_count: int
    voters: tuple[ReplicaKey, ...]  # preferred leader first


class Candidate(NamedTuple):
    """A broker that can carry replicas."""

    voter: ReplicaKey
    rack: str | None = None
    is_live: bool = True
    takes_replicas: bool = True  # neither gone nor drained


class Loads:
    """For each broker, the number of shards whose preferred leader it is, and the number of replicas it carries."""

    __slots__ = ("carried", "led")

    def __init__(self, shards: Iterable[Sequence[ReplicaKey]] = ()) -> None:
        """Count `shards`, which holds the replicas of each shard, preferred leader first."""
        self.led: Counter[BrokerId] = Counter()
        self.carried: Counter[BrokerId] = Counter()
        for replicas in shards:
            self.add(replicas)

    def add(self, replicas: Sequence[ReplicaKey]) -> None:
        self.led[replicas[0].broker_id] += 1
        self.carried.update(voter.broker_id for voter in replicas)

    def remove(self, replicas: Sequence[ReplicaKey]) -> None:
        self.led[replicas[0].broker_id] -= 1
        self.carried.subtract(voter.broker_id for voter in replicas)

    def copy(self) -> "Loads":
        copied = Loads()
        copied.led, copied.carried = self.led.copy(), self.carried.copy()
        return copied


def shard_count(partition_count: int, broker_count: int) -> int:
    """
    Return how many shards a topic gets: enough that every broker can lead one and no shard exceeds the maximum size.
    """
    return max(min(partition_count, broker_count), -(-partition_count // PARTITIONS_PER_SHARD_MAX))


def place(
    *,
    first_partition: int,
    partition_count: int,
    replication_factor: int,
    candidates: Sequence[Candidate],
    loads: Loads,
) -> tuple[ShardPlan, ...]:
    """Divide partitions into contiguous ranges of nearly equal size and choose the replicas of each range.

    `loads` does not include the new shards, and the function does not change it.
    """
    assert 1 <= replication_factor <= len(candidates), (replication_factor, len(candidates))
    loads = loads.copy()
    plans = []
    able = sum(candidate.takes_replicas for candidate in candidates)
    shards = shard_count(partition_count, able or len(candidates))
    smaller, bigger_shards = divmod(partition_count, shards)
    start = first_partition
    for index in range(shards):
        size = smaller + (index < bigger_shards)
        replicas = extend((), replication_factor, candidates, loads)
        loads.add(replicas)
        plans.append(ShardPlan(start, size, replicas))
        start += size
    return tuple(plans)


def extend(
    replicas: tuple[ReplicaKey, ...], count: int, candidates: Sequence[Candidate], loads: Loads
) -> tuple[ReplicaKey, ...]:
    """Return `replicas` followed by additional replicas: up to `count` in total, and at most one per candidate."""
    racks = {candidate.voter.broker_id: candidate.rack for candidate in candidates}
    order = {candidate.voter.broker_id: index for index, candidate in enumerate(candidates)}
    while len(replicas) < count:
        taken = {voter.broker_id for voter in replicas}
        free = [candidate for candidate in candidates if candidate.voter.broker_id not in taken]
        if not free:
            break
        if replicas:
            on_rack = Counter(racks[voter.broker_id] for voter in replicas if voter.broker_id in racks)
            last = order.get(replicas[-1].broker_id, -1)
            chosen = min(free, key=lambda c: _follower_rank(c, on_rack, loads, (order[c.voter.broker_id] - last - 1)))
        else:
            chosen = min(free, key=lambda c: _leader_rank(c, loads))
        replicas = (*replicas, chosen.voter)
    return replicas


def _leader_rank(candidate: Candidate, loads: Loads) -> tuple[bool, bool, int, int]:
    broker_id = candidate.voter.broker_id
    return not candidate.is_live, not candidate.takes_replicas, loads.led[broker_id], loads.carried[broker_id]


def _follower_rank(
    candidate: Candidate, on_rack: Counter[str | None], loads: Loads, distance: int
) -> tuple[bool, bool, int, int, int, bool, int]:
    """Return the sort key of a candidate follower; the candidate with the lowest key is chosen.

    If loads are equal, the candidate after the last replica's broker is chosen, so that shards are spread over all
    pairs of brokers and not only over the brokers with the lowest ids.
    """
    broker_id = candidate.voter.broker_id
    return (
        not candidate.is_live,
        not candidate.takes_replicas,
        on_rack[candidate.rack],
        loads.carried[broker_id],
        loads.led[broker_id],
        distance < 0,
        distance,
    )


def place_as_assigned(*, first_partition: int, assignments: Sequence[tuple[ReplicaKey, ...]]) -> tuple[ShardPlan, ...]:
    """Group consecutive partitions with equal replicas into shards of at most PARTITIONS_PER_SHARD_MAX partitions."""
    plans: list[ShardPlan] = []
    for partition, voters in enumerate(assignments, first_partition):
        last = plans[-1] if plans else None
        if last is not None and last.voters == voters and last.partition_count < PARTITIONS_PER_SHARD_MAX:
            plans[-1] = last._replace(partition_count=last.partition_count + 1)
        else:
            plans.append(ShardPlan(partition, 1, voters))
    return tuple(plans)

"""Which partitions make a shard, and which brokers carry it.

As in Kafka, the replicas of a shard stand on as many racks as there are, those on one rack as evenly as can be, and a
broker without a rack stands on a rack of its own kind (all of them on one).  Unlike Kafka, which goes round the brokers
from a random start, the least loaded are taken: who leads fewest leads the next shard, who carries fewest follows.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tidemill.model.broker_id import BrokerId, ReplicaKey

PARTITIONS_PER_SHARD_MAX: Final = 16  # one vote and one row sequence serve so many; a hot shard can still be split


class ShardPlan(NamedTuple):
    first_partition: int
    partition_count: int
    voters: tuple[ReplicaKey, ...]  # the preferred leader first


class Candidate(NamedTuple):
    """A broker that can carry replicas."""

    voter: ReplicaKey
    rack: str | None = None
    is_live: bool = True


class Loads:
    """How many shards each broker leads, if leaders are where they should be, and how many it carries."""

    __slots__ = ("carried", "led")

    def __init__(self, shards: Iterable[Sequence[ReplicaKey]] = ()) -> None:
        """`shards`: the replicas of each, the preferred leader first."""
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
    """Enough shards that every broker can lead one, and that none has more partitions than one shard should."""
    return max(min(partition_count, broker_count), -(-partition_count // PARTITIONS_PER_SHARD_MAX))


def place(
    *,
    first_partition: int,
    partition_count: int,
    replication_factor: int,
    candidates: Sequence[Candidate],
    loads: Loads,
) -> tuple[ShardPlan, ...]:
    """Contiguous ranges of nearly one size, each with its replicas; `loads` are those before, and stay as they are."""
    assert 1 <= replication_factor <= len(candidates), (replication_factor, len(candidates))
    loads = loads.copy()
    plans = []
    shards = shard_count(partition_count, len(candidates))
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
    """`replicas`, in their order, and more until there are `count`, or no broker is left that has none."""
    racks = {candidate.voter.broker_id: candidate.rack for candidate in candidates}
    order = {candidate.voter.broker_id: place for place, candidate in enumerate(candidates)}
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


def _leader_rank(candidate: Candidate, loads: Loads) -> tuple[bool, int, int]:
    broker_id = candidate.voter.broker_id
    return not candidate.is_live, loads.led[broker_id], loads.carried[broker_id]


def _follower_rank(
    candidate: Candidate, on_rack: Counter[str | None], loads: Loads, steps_behind: int
) -> tuple[bool, int, int, int, bool, int]:
    """At equal load the next one in order, so that all pairs of brokers come up and not the lowest ids."""
    broker_id = candidate.voter.broker_id
    return (
        not candidate.is_live,
        on_rack[candidate.rack],
        loads.carried[broker_id],
        loads.led[broker_id],
        steps_behind < 0,
        steps_behind,
    )


def place_as_told(*, first_partition: int, assignments: Sequence[tuple[ReplicaKey, ...]]) -> tuple[ShardPlan, ...]:
    """One shard for each run of partitions that were assigned to the same brokers, up to a shard's size."""
    plans: list[ShardPlan] = []
    for partition, voters in enumerate(assignments, first_partition):
        last = plans[-1] if plans else None
        if last is not None and last.voters == voters and last.partition_count < PARTITIONS_PER_SHARD_MAX:
            plans[-1] = last._replace(partition_count=last.partition_count + 1)
        else:
            plans.append(ShardPlan(partition, 1, voters))
    return tuple(plans)

"""How partitions are divided into shards, and on which brokers their replicas are placed."""

from collections import Counter
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.metadata.placement import (
    PARTITIONS_PER_SHARD_MAX,
    Candidate,
    Loads,
    place,
    place_as_assigned,
    shard_count,
)
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey

VOTERS = [ReplicaKey(BrokerId(broker_id), DirectoryId(bytes([broker_id]) * 16)) for broker_id in range(1, 8)]


@pytest.mark.parametrize(
    ("partitions", "brokers", "shards"),
    [(1, 1, 1), (8, 1, 1), (16, 1, 1), (17, 1, 2), (8, 3, 3), (2, 3, 2), (100, 3, 7), (10_000, 5, 625)],
)
def test_a_topic_has_as_many_shards_as_it_needs(partitions: int, brokers: int, shards: int) -> None:
    """The number of shards is max(min(partitions, brokers), ceil(partitions / 16))."""
    assert shards == shard_count(partitions, brokers)


racks_of_brokers = st.lists(st.none() | st.sampled_from("abc"), min_size=1, max_size=7)


def brokers_on(
    racks: Sequence[str | None], down: Collection[int] = (), drained: Collection[int] = ()
) -> list[Candidate]:
    """Return brokers 1, 2 and so on, one on each of the given racks."""
    return [
        Candidate(v, rack, v.broker_id not in down, v.broker_id not in drained)
        for v, rack in zip(VOTERS, racks, strict=False)
    ]


def placed(candidates: list[Candidate], topics: Sequence[int], factor: int) -> list[tuple[int, ...]]:
    """Return the brokers of every shard after creating topics with these partition counts one after the other."""
    loads = Loads()
    shards = []
    for partition_count in topics:
        for plan in place(
            first_partition=0,
            partition_count=partition_count,
            replication_factor=factor,
            candidates=candidates,
            loads=loads,
        ):
            loads.add(plan.voters)
            shards.append(tuple(v.broker_id for v in plan.voters))
    return shards


def imbalance(counts: Counter[int], among: Sequence[Candidate]) -> int:
    each = [counts[candidate.voter.broker_id] for candidate in among]
    return max(each) - min(each)


@given(st.integers(0, 100), st.integers(1, 500), racks_of_brokers, st.integers(1, 7))
def test_ranges_are_contiguous_even_and_replicated(
    first: int, count: int, racks: list[str | None], factor: int
) -> None:
    """The ranges have no gaps, differ by at most one partition, and each shard's replicas are on different brokers."""
    factor = min(factor, len(racks))

    plans = place(
        first_partition=first,
        partition_count=count,
        replication_factor=factor,
        candidates=brokers_on(racks),
        loads=Loads(),
    )

    held = [p for plan in plans for p in range(plan.first_partition, plan.first_partition + plan.partition_count)]
    sizes = {plan.partition_count for plan in plans}
    assert list(range(first, first + count)) == held
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= PARTITIONS_PER_SHARD_MAX
    assert {factor} == {len({v.broker_id for v in plan.voters}) for plan in plans}


@given(racks_of_brokers, st.integers(1, 7), st.lists(st.integers(1, 40), min_size=1, max_size=10))
def test_leaders_are_balanced_and_racks_are_used(racks: list[str | None], factor: int, topics: list[int]) -> None:
    """No broker leads two shards more than another, and a shard's replicas are on as many racks as possible."""
    factor = min(factor, len(racks))

    shards = placed(brokers_on(racks), topics, factor)

    assert imbalance(Counter(shard[0] for shard in shards), brokers_on(racks)) <= 1
    for shard in shards:
        on_rack = Counter(racks[broker_id - 1] for broker_id in shard)
        assert len(on_rack) == min(factor, len(set(racks)))


@given(st.integers(1, 7), st.integers(1, 7), st.lists(st.integers(1, 40), min_size=1, max_size=10))
def test_equal_brokers_carry_nearly_equal_numbers_of_replicas(count: int, factor: int, topics: list[int]) -> None:
    """Leadership is balanced first; the brokers' numbers of replicas then differ by at most two."""
    brokers = brokers_on([None] * count)

    shards = placed(brokers, topics, min(factor, count))

    assert imbalance(Counter(broker_id for shard in shards for broker_id in shard), brokers) <= 2


@given(racks_of_brokers, st.sets(st.integers(1, 7)), st.integers(1, 7))
def test_brokers_that_are_down_are_chosen_last(racks: list[str | None], down: set[int], factor: int) -> None:
    """A broker that is down is chosen only after all live brokers, and the preferred leader is a live broker."""
    factor = min(factor, len(racks))
    up = [broker_id for broker_id in range(1, len(racks) + 1) if broker_id not in down]

    shards = placed(brokers_on(racks, down), [30], factor)

    assert {min(factor, len(up))} == {sum(broker_id in up for broker_id in shard) for shard in shards}
    assert not up or {True} == {shard[0] in up for shard in shards}


@pytest.mark.parametrize(
    ("factor", "chosen"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 3, 4]), (5, [1, 2, 3, 4, 5])]
)
def test_drained_brokers_are_chosen_before_those_that_are_down(factor: int, chosen: list[int]) -> None:
    """
    A drained broker is chosen if too few others are live, because its replica works until it has moved.  The replica of
    a broker that is down does not.  A drained broker on another rack does not win.
    """
    candidates = brokers_on(["a", "a", "b", "b", "b"], down=(4, 5), drained=(3, 5))

    (shard,) = placed(candidates, [1], factor)

    assert list(shard) == chosen


def test_a_drained_broker_gets_no_shard_of_its_own() -> None:
    """A topic has a shard for each broker that may lead one."""
    shards = placed(brokers_on([None] * 4, drained=(4,)), [8], 2)

    assert sorted(shard[0] for shard in shards) == [1, 2, 3]
    assert all(4 not in shard for shard in shards)


def test_a_cluster_of_drained_brokers_still_creates_topics() -> None:
    """Without any other broker, drained ones are as good as all."""
    shards = placed(brokers_on([None] * 2, drained=(1, 2)), [8], 1)

    assert sorted(shards) == [(1,), (2,)]


def test_a_new_broker_gets_the_next_leaders() -> None:
    """Existing shards count, so a new broker gets the leadership of new shards first."""
    loads = Loads([(VOTERS[0], VOTERS[1]), (VOTERS[1], VOTERS[0])])

    (plan,) = place(
        first_partition=0,
        partition_count=1,
        replication_factor=2,
        candidates=brokers_on([None, None, None]),
        loads=loads,
    )

    assert [v.broker_id for v in plan.voters] == [3, 1]


@given(st.lists(st.sampled_from(VOTERS[:2]).map(lambda voter: (voter,)), min_size=1, max_size=60))
def test_explicit_assignments_are_followed(assignments: list[tuple[ReplicaKey, ...]]) -> None:
    """Each partition is on its assigned brokers, and no shard exceeds PARTITIONS_PER_SHARD_MAX."""
    plans = place_as_assigned(first_partition=5, assignments=assignments)

    assert assignments == [plan.voters for plan in plans for _ in range(plan.partition_count)]
    assert max(plan.partition_count for plan in plans) <= PARTITIONS_PER_SHARD_MAX

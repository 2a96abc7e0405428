"""Which partitions make a shard, and who carries them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.metadata.placement import PARTITIONS_PER_SHARD_MAX, place, place_as_told, shard_count
from tidemill.model.broker_id import BrokerId, DirectoryId, Voter

VOTERS = [Voter(BrokerId(broker_id), DirectoryId(bytes([broker_id]) * 16)) for broker_id in range(1, 8)]


@pytest.mark.parametrize(
    ("partitions", "brokers", "shards"),
    [(1, 1, 1), (8, 1, 1), (16, 1, 1), (17, 1, 2), (8, 3, 3), (2, 3, 2), (100, 3, 7), (10_000, 5, 625)],
)
def test_a_topic_has_as_many_shards_as_it_needs(partitions: int, brokers: int, shards: int) -> None:
    """max(min(partitions, brokers), ceil(partitions / 16))."""
    assert shards == shard_count(partitions, brokers)


@given(st.integers(0, 100), st.integers(1, 500), st.integers(1, 7), st.integers(1, 7), st.integers(0, 1_000))
def test_ranges_are_whole_even_and_carried(first: int, count: int, brokers: int, factor: int, turn: int) -> None:
    """Ranges follow one another without a gap, differ by one partition at most, and name different brokers."""
    factor = min(factor, brokers)

    plans = place(
        first_partition=first, partition_count=count, replication_factor=factor, brokers=VOTERS[:brokers], turn=turn
    )

    held = [p for plan in plans for p in range(plan.first_partition, plan.first_partition + plan.partition_count)]
    sizes = {plan.partition_count for plan in plans}
    assert list(range(first, first + count)) == held
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= PARTITIONS_PER_SHARD_MAX
    assert {factor} == {len(set(plan.voters)) for plan in plans}


@given(st.lists(st.sampled_from(VOTERS[:2]).map(lambda voter: (voter,)), min_size=1, max_size=60))
def test_what_was_told_is_followed(assignments: list[tuple[Voter, ...]]) -> None:
    """Each partition lies with the brokers that were named for it, in shards no bigger than others."""
    plans = place_as_told(first_partition=5, assignments=assignments)

    assert assignments == [plan.voters for plan in plans for _ in range(plan.partition_count)]
    assert max(plan.partition_count for plan in plans) <= PARTITIONS_PER_SHARD_MAX

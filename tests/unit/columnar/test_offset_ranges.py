"""Dividing work among Spark's partitions, and limiting the offsets of a trigger."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.columnar.offset_ranges import OffsetRange, divided, limited, waiting_count
from tidemill.model.partition import TopicPartition

SIZES = st.lists(st.integers(0, 5_000), min_size=1, max_size=12)


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", number, 10, 10 + size) for number, size in enumerate(sizes)]


def bounds(planned: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(one.partition, one.start_offset, one.end_offset) for one in planned]


def test_without_options_each_topic_partition_is_one_task():
    """
    Without options, each topic partition with offsets to read becomes one task.
    """
    assert [(0, 10, 15), (2, 10, 17)] == bounds(divided(ranges(5, 0, 7)))


def test_large_ranges_are_split_to_get_more_partitions():
    """
    Large ranges are split to get more partitions, and small ranges are not.
    """
    assert [(0, 10, 12), (1, 10, 43), (1, 43, 76), (1, 76, 110)] == bounds(divided(ranges(2, 100), partitions_min=4))


def test_a_record_limit_splits_a_range_into_equal_parts():
    """
    A record limit splits a range into parts of nearly the same size, not into full ones and a remainder.
    """
    assert [(0, 10, 13), (0, 13, 16), (0, 16, 20)] == bounds(divided(ranges(10), records_per_partition_max=4))


def test_a_small_partition_is_not_starved():
    """
    Every partition with pending offsets gets at least one offset, however small its share.
    """
    start = {TopicPartition("t", 0): 0, TopicPartition("t", 1): 0}
    end = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 1_000_000}

    assert {TopicPartition("t", 0): 1, TopicPartition("t", 1): 99} == limited(start, end, 100)


def test_a_limit_is_shared_in_proportion_to_pending_offsets():
    """
    A limit is shared among partitions in proportion to their pending offsets, as in Spark's Kafka source.
    """
    start = {TopicPartition("t", n): 100 for n in range(3)}
    end = {TopicPartition("t", 0): 400, TopicPartition("t", 1): 200, TopicPartition("t", 2): 100}

    assert {TopicPartition("t", 0): 175, TopicPartition("t", 1): 125, TopicPartition("t", 2): 100} == limited(
        start, end, 100
    )


def test_a_partition_whose_offset_decreased_counts_as_zero():
    """
    A partition whose offset decreased counts as having no pending offsets, so it neither delays nor causes a trigger.
    """
    assert 5 == waiting_count({TopicPartition("t", 0): 50}, {TopicPartition("t", 0): 10, TopicPartition("t", 1): 5})


@given(SIZES, st.none() | st.integers(1, 40), st.none() | st.integers(20, 10_000))
def test_dividing_neither_loses_nor_repeats_offsets(sizes, partitions_min, records_max):
    """
    The parts of a range cover it without gaps or overlaps, and no part exceeds the limit.
    """
    whole = ranges(*sizes)

    planned = divided(whole, partitions_min=partitions_min, records_per_partition_max=records_max)

    parts: dict[int, list[OffsetRange]] = {one.partition: [] for one in whole}
    for part in planned:
        parts[part.partition].append(part)
    for one in whole:
        borders = [one.start_offset, *(part.end_offset for part in parts[one.partition])]
        assert ([part.start_offset for part in parts[one.partition]], borders[-1]) == (borders[:-1], one.end_offset)
    assert all(part.size > 0 for part in planned)
    assert records_max is None or all(part.size <= records_max for part in planned)


@given(SIZES, st.integers(1, 20_000))
def test_a_limited_trigger_makes_progress_within_its_limit(sizes, offsets_max):
    """
    Every limited trigger makes progress, and exceeds its limit by at most one offset per partition.
    """
    start = {TopicPartition("t", n): 7 for n in range(len(sizes))}
    end = {TopicPartition("t", n): 7 + size for n, size in enumerate(sizes)}

    until = limited(start, end, offsets_max)

    taken = waiting_count(start, until)
    assert all(start[p] <= until[p] <= end[p] for p in end)
    assert taken <= max(offsets_max, sum(size > 0 for size in sizes)) + len(sizes)
    assert (taken > 0) == (sum(sizes) > 0)

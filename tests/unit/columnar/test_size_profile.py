"""Estimating the bytes of offset ranges from sampled batches, and dividing ranges by them."""

from bisect import bisect_right
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.columnar.offset_ranges import OffsetRange, divided, limited_by_bytes
from tidemill.columnar.size_profile import SAMPLES_MAX, BatchSize, SizeProfile, sampled
from tidemill.model.partition import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
BATCHES = st.lists(st.tuples(st.integers(1, 500), st.integers(70, 100_000), st.booleans()), min_size=1, max_size=40)


class Log:
    """A partition whose batches have (offset count, bytes, whether compaction has removed the batch)."""

    def __init__(self, batches):
        self._ends = list(accumulate(count for count, _, _ in batches))
        self._batches = batches
        self.asked = []

    @property
    def end_offset(self):
        return self._ends[-1]

    def batch_at(self, offset):
        self.asked.append(offset)
        index = bisect_right(self._ends, offset)
        count, size, is_removed = self._batches[index]
        return None if is_removed else BatchSize(self._ends[index] - count, self._ends[index], size)


def log_of(*batches):
    return Log([(count, size, False) for count, size in batches])


def test_the_bytes_before_an_offset_are_the_inverse_of_the_offset_at_bytes():
    """
    `size_before` is monotonic, from 0 to the total, and exact at the borders between batches.
    """
    profile = SizeProfile((10, 20, 30), (100, 1_000))

    assert [0, 0, 50, 100, 1_000, 1_100, 1_100] == [profile.size_before(it) for it in (0, 10, 15, 20, 29, 30, 99)]
    assert 25 == profile.offset_at(profile.size_before(25))


def test_a_range_of_few_batches_is_measured_exactly():
    """
    A range that has no more batches than samples is walked batch by batch, so its size is exact.
    """
    log = log_of((10, 1_000), (20, 500), (30, 9_000))

    profile = sampled(0, 60, log.batch_at)

    assert (10_500, [0, 10, 30]) == (profile.total, log.asked)
    assert [0, 10, 30, 45, 60] == [profile.offset_at(size) for size in (0, 1_000, 1_500, 6_000, 10_500)]


def test_a_part_of_a_batch_counts_in_proportion():
    """
    A range that begins and ends inside batches counts the corresponding share of their bytes.
    """
    assert 500 + 100 == sampled(5, 12, log_of((10, 1_000), (20, 1_000)).batch_at).total


def test_removed_batches_count_like_the_others():
    """
    Offsets whose batch compaction has removed count like those of the sampled batches; without a sampled batch, the
    size is unknown.
    """
    log = Log([(10, 100, False), (10, 999, True)])

    assert 200 == sampled(0, 20, log.batch_at).total
    assert None is sampled(10, 20, log.batch_at)


def test_tasks_have_equal_bytes_and_not_equal_offsets():
    """
    maxBytesPerPartition splits a range into parts of about equal size in bytes, so that no task gets all the large
    records.
    """
    profile = sampled(0, 110, log_of((100, 1_000), (10, 9_000)).batch_at)

    parts = divided([OffsetRange("t", 0, 0, 110)], bytes_per_partition_max=5_000, profiles={P0: profile})

    assert [(0, 104), (104, 110)] == [(part.start_offset, part.end_offset) for part in parts]


def test_a_range_of_unknown_size_stays_whole():
    """
    A range that could not be sampled is read by one task.
    """
    whole = [OffsetRange("t", 0, 0, 110)]

    assert whole == divided(whole, bytes_per_partition_max=1, profiles={})


def test_a_trigger_takes_bytes_in_proportion():
    """
    maxBytesPerTrigger is shared in proportion to pending bytes, and every partition with pending offsets advances.
    """
    profiles = {P0: SizeProfile((0, 100), (9_000,)), P1: SizeProfile((50, 52), (1_000,))}
    start, end = {P0: 0, P1: 50}, {P0: 100, P1: 52}

    assert {P0: 50, P1: 51} == limited_by_bytes(start, end, profiles, 5_000)
    assert end == limited_by_bytes(start, end, profiles, 10_000)
    assert {P0: 1, P1: 51} == limited_by_bytes(start, end, profiles, 1)


@settings(deadline=None)
@given(BATCHES, st.integers(1, 300_000), st.none() | st.integers(1, 20), st.none() | st.integers(1, 700))
def test_splits_by_bytes_cover_every_offset_once_and_never_change(batches, bytes_max, partitions_min, records_max):
    """
    Splits by bytes cover every offset exactly once, the same range always has the same parts, and few batches are read.
    """

    def plan():
        log = Log(batches)
        whole = OffsetRange("t", 0, 0, log.end_offset)
        profile = sampled(0, log.end_offset, log.batch_at)
        assert len(log.asked) <= SAMPLES_MAX
        return divided(
            [whole],
            partitions_min=partitions_min,
            records_per_partition_max=records_max,
            bytes_per_partition_max=bytes_max,
            profiles={} if profile is None else {P0: profile},
        )

    parts = plan()

    assert parts == plan()
    borders = [0, *(part.end_offset for part in parts)]
    assert ([part.start_offset for part in parts], Log(batches).end_offset) == (borders[:-1], borders[-1])
    assert all(part.size > 0 for part in parts)


@settings(deadline=None)
@given(BATCHES, BATCHES, st.integers(1, 300_000))
def test_a_trigger_limited_by_bytes_makes_progress(first, second, bytes_max):
    """
    maxBytesPerTrigger never moves a partition past its end offset, and moves every partition with pending offsets
    forward.
    """
    logs = {P0: Log(first), P1: Log(second)}
    end = {partition: log.end_offset for partition, log in logs.items()}
    profiles = {p: profile for p, log in logs.items() if (profile := sampled(0, log.end_offset, log.batch_at))}

    until = limited_by_bytes({P0: 0, P1: 0}, end, profiles, bytes_max)

    assert all(0 < until[partition] <= end[partition] for partition in end)

"""When the records of a replay are due."""

import pytest

from tidemill.model.delayed_record import DUE_MS_MIN
from tidemill.spark.pipelines.replay.schedule import UNSHIFTED, DueTimes, Rate, RecordTimes


def test_the_distance_of_two_records_is_divided_by_the_speed():
    schedule = RecordTimes(speed=2.0, first_timestamp_ms=1_000, began_at=50.0)

    assert 1_000 == schedule.timestamp_due(50.0)
    assert 5_000 == schedule.timestamp_due(52.0)
    assert 52.0 == schedule.due_at(5_000)


def test_a_record_that_is_due_at_a_time_is_among_those_due_then():
    schedule = RecordTimes(speed=3.0, first_timestamp_ms=1_357_034_400_123, began_at=0.1)

    for timestamp in range(1_357_034_400_123, 1_357_034_401_123):
        assert timestamp <= schedule.timestamp_due(schedule.due_at(timestamp) + 1e-6)


def test_a_rate_counts_from_the_start_of_the_run():
    rate = Rate(records_per_second=100, began_at=7.0)

    assert (7.0, 9.5) == (rate.due_at(0), rate.due_at(250))


FIRST_MS, DUE_MS = 1_357_034_400_123, 1_800_000_000_000


@pytest.mark.parametrize(
    ("speed", "distance_ms", "later_ms"),
    [
        (1.0, 0, 0),
        (1.0, 86_400_001, 86_400_001),
        (2.0, 1_000, 500),
        (2.0, 1_001, 501),  # rounded up: no record is early
        (0.5, 1_000, 2_000),
        (3.0, 100, 34),
        (1.0, -5_000, -5_000),  # a record before the first one, in another partition
        (2.0, -5_001, -2_500),
        (60.0, 31_536_000_000, 525_600_000),
    ],
)
def test_records_of_a_timer_topic_keep_their_distances_divided_by_the_speed(speed, distance_ms, later_ms):
    times = DueTimes(first_timestamp_ms=FIRST_MS, first_due_ms=DUE_MS, speed=speed)

    assert DUE_MS + later_ms == times.due_ms(FIRST_MS + distance_ms)


def test_no_due_time_is_one_that_brokers_take_for_seconds():
    assert [DUE_MS_MIN, DUE_MS_MIN, DUE_MS_MIN + 1] == [UNSHIFTED.due_ms(it) for it in (-1, 0, DUE_MS_MIN + 1)]

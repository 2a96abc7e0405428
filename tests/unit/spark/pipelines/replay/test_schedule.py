"""When the records of a replay are due."""

from tidemill.spark.pipelines.replay.schedule import Rate, RecordTimes


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

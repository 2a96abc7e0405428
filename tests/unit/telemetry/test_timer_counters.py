"""Counters of a bounded number of timer topics."""

from tidemill.telemetry.timer_counters import CountersByTimerTopic
from tidemill.telemetry.topic_counters import OTHER


def test_further_topics_share_counters() -> None:
    """
    The sum over all rows is what the broker has counted.
    """
    counters = CountersByTimerTopic(1)
    counters.of("a").records_released += 1
    counters.of("b").records_released += 2
    counters.of("c").records_released += 4

    assert [("a", 1), (OTHER, 6)] == [(topic, row.records_released) for topic, row in counters.rows()]
    assert [OTHER] == [topic for topic, _ in CountersByTimerTopic(0).rows()]


def test_a_deleted_topic_makes_room() -> None:
    counters = CountersByTimerTopic(1)
    counters.of("a")

    counters.keep_topics({"b"})
    counters.of("b")

    assert ["b", OTHER] == [topic for topic, _ in counters.rows()]

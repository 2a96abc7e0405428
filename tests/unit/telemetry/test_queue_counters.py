"""Counters of a bounded number of queues."""

from tidemill.telemetry.queue_counters import OTHER_QUEUE, CountersByQueue


def test_further_queues_share_counters() -> None:
    """
    Each of the first queues has counters of its own; the others share one object, which is shown even without queues,
    so that the sum over all rows is what the broker has counted.
    """
    counters = CountersByQueue(1)
    counters.of("g", "jobs").records_acquired += 1
    counters.of("h", "jobs").records_acquired += 2
    counters.of("i", "mails").records_acquired += 4

    assert [(("g", "jobs"), 1), (OTHER_QUEUE, 6)] == [(key, row.records_acquired) for key, row in counters.rows()]
    assert [OTHER_QUEUE] == [key for key, _ in CountersByQueue(0).rows()]


def test_a_deleted_queue_makes_room() -> None:
    """
    The counters of a deleted group, and of a deleted topic, disappear, and the next queue may have its own.
    """
    counters = CountersByQueue(2)
    counters.of("g", "jobs")
    counters.of("h", "mails")

    counters.forget("g", "jobs")
    counters.keep_topics({"jobs"})
    counters.of("i", "jobs")

    assert [("i", "jobs"), OTHER_QUEUE] == [key for key, _ in counters.rows()]

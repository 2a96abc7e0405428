"""What waits in the timer topics whose partitions this broker leads, computed at each scrape.

The sum over all brokers is what waits in a topic, because every partition has one leader.
"""

from functools import partial, reduce
from math import inf

from tidemill.broker.broker import Broker
from tidemill.shard.arrivals import timers_of, waiting_bytes
from tidemill.shard.partition import Partition
from tidemill.telemetry.metrics import TimerGauges
from tidemill.telemetry.topic_counters import OTHER


def timer_gauges(broker: Broker, rows_max: int) -> list[TimerGauges]:
    """Return the `rows_max` topics in which most records wait, and one more row with the sums of the others."""
    found: dict[str, TimerGauges] = {}
    for topic, partitions in broker.shard_table.topics.items():
        for partition in partitions.values():
            if partition.arrivals is not None and partition.shard.is_serving:
                measured = _measured(partition, broker.clock.wall_ms())
                found[topic] = _sum(topic, found[topic], measured) if topic in found else measured
    rows = sorted(found.values(), key=lambda row: (-row.waiting, row.topic))
    others = rows[rows_max:]
    if others:
        rows[rows_max:] = [reduce(partial(_sum, OTHER), others)._replace(topic=OTHER)]
    return rows


def _measured(partition: Partition, wall_ms: int) -> TimerGauges:
    timers, limit = timers_of(partition), partition.shard.release_limit
    due = timers.index.next_due()
    return TimerGauges(
        topic=partition.topic,
        waiting=timers.waiting.count,
        waiting_bytes=waiting_bytes(partition),
        next_due=inf if due is None else due / 1_000,
        clock_behind=inf if limit is None else max(wall_ms - limit, 0) / 1_000,
    )


def _sum(topic: str, one: TimerGauges, other: TimerGauges) -> TimerGauges:
    return TimerGauges(
        topic,
        waiting=one.waiting + other.waiting,
        waiting_bytes=one.waiting_bytes + other.waiting_bytes,
        next_due=min(one.next_due, other.next_due),
        clock_behind=max(one.clock_behind, other.clock_behind),
    )

"""The state of queues (a queue is a share group's use of a topic) in the partitions that this broker leads.

It is computed at each scrape, also for queues that no consumer reads.  The sum over all brokers is the state of the
queue, because every partition has one leader.
"""

from collections.abc import Iterator
from functools import partial, reduce
from typing import Final, NamedTuple

from tidemill.broker.broker import Broker
from tidemill.broker.shares.led_share import ShareKey
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model.dead_letters import is_redrive
from tidemill.shard.partition import Partition
from tidemill.share.progress import progress
from tidemill.share.share import Share
from tidemill.telemetry.metrics import QueueGauges
from tidemill.telemetry.queue_counters import OTHER_QUEUE

RUNS_MAX: Final = 10_000  # runs examined per scrape, in about 10 ms; further shares are not measured


class MeasuredQueues(NamedTuple):
    rows: list[QueueGauges]
    """The queues, those with the most available records first."""
    shares: int
    """The number of shares in the partitions that this broker leads."""
    unmeasured: int
    """The number of these shares that are in no row."""


def queue_gauges(broker: Broker, rows_max: int) -> MeasuredQueues:
    """
    Return the `rows_max` queues with the most available records, and one more row `OTHER_QUEUE` with the sums of the
    others.
    """
    found: dict[tuple[str, str], QueueGauges] = {}
    shares = examined = unmeasured = 0
    wall = broker.clock.wall_ms()
    for partition, share in _led_shares(broker):
        shares += 1
        if not rows_max or examined + len(share.runs) > RUNS_MAX:
            unmeasured += 1
            continue
        examined += len(share.runs)
        queue = share.group, partition.topic
        measured = _measured(broker, partition, share, wall)
        found[queue] = _sum(queue, found[queue], measured) if queue in found else measured
    rows = sorted(found.values(), key=lambda row: (-row.available, row.group, row.topic))
    others = rows[rows_max:]
    if others:
        rows[rows_max:] = [reduce(partial(_sum, OTHER_QUEUE), others, QueueGauges(*OTHER_QUEUE))]
    return MeasuredQueues(rows, shares, unmeasured)


def _led_shares(broker: Broker) -> Iterator[tuple[Partition, Share]]:
    for partitions in broker.shard_table.topics.values():
        for partition in partitions.values():
            if partition.shard.is_serving:
                for share in shares_of(partition).by_number.values():
                    yield partition, share


def _measured(broker: Broker, partition: Partition, share: Share, wall: int) -> QueueGauges:
    led = broker.shares.led(ShareKey(share.group, partition.shard.log.descriptor.topic_id, partition.number))
    leases = led.leases if led is not None and led.share is share else None
    counts = progress(share, leases, partition.high_watermark, wall)
    return QueueGauges(
        group=share.group,
        topic=partition.topic,
        available=counts.available,
        held=counts.held,
        delayed=counts.delayed,
        dead_waiting=counts.archiving,
        expired_unread=0 if is_redrive(share.group) else share.expired_unread,
        tracked_runs=len(share.runs),
    )


def _sum(queue: tuple[str, str], one: QueueGauges, other: QueueGauges) -> QueueGauges:
    return QueueGauges(
        *queue,
        available=one.available + other.available,
        held=one.held + other.held,
        delayed=one.delayed + other.delayed,
        dead_waiting=one.dead_waiting + other.dead_waiting,
        expired_unread=one.expired_unread + other.expired_unread,
        tracked_runs=one.tracked_runs + other.tracked_runs,
    )

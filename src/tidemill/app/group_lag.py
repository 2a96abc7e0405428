"""The lag of consumer groups: the number of records from a group's committed offset to the end of the partition.

The broker that coordinates a group computes its lag at each scrape, from its own replicas: even a follower's high
watermark is at most a few milliseconds old.  If it has no replica of a partition, it does not know where the partition
ends, and does not ask another broker: such offsets are counted as unmeasured, not as a lag of 0.
"""

from typing import Final, NamedTuple

from tidemill.broker.broker import Broker
from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.telemetry.topic_counters import OTHER

OFFSETS_MAX: Final = 10_000  # offsets examined per scrape, in a few milliseconds; further groups are not measured


class GroupLags(NamedTuple):
    rows: list[tuple[str, str, int]]
    """Group, topic and lag in records, the largest lag first."""
    unmeasured: int
    """The number of committed offsets that are in no row."""


def group_lags(broker: Broker, rows_max: int) -> GroupLags:
    """
    Return the lag of each group and topic: the `rows_max` largest, and one more row `OTHER` with the sum of the others.
    """
    found: dict[tuple[str, str], int] = {}
    examined = unmeasured = 0
    topics, open_partitions = broker.image.topics, broker.shard_table.topics
    for hosted in broker.coordinators.of(GROUPS).hosted() if rows_max else ():
        if not hosted.is_loaded:
            continue  # until the partition is loaded, its offsets may be outdated, and the lag too large
        for group_id, offsets in hosted.core.groups.committed_offsets():
            if examined + len(offsets) > OFFSETS_MAX:
                unmeasured += len(offsets)
                continue
            examined += len(offsets)
            for (topic, number), committed in offsets.items():
                known = topics.get(topic)
                if known is None or known.topic_id != committed.topic_id:
                    continue  # the topic has been deleted, and the offset soon will be
                partition = open_partitions[topic].get(number) if topic in open_partitions else None
                if partition is None or partition.shard.log.damage is not None:
                    unmeasured += 1
                    continue
                lag = max(partition.high_watermark - committed.offset, 0)
                found[group_id, topic] = found.get((group_id, topic), 0) + lag
    rows = sorted(((*names, lag) for names, lag in found.items()), key=lambda row: (-row[2], row))
    others = rows[rows_max:]
    if others:
        rows[rows_max:] = [(OTHER, OTHER, sum(lag for *_, lag in others))]
    return GroupLags(rows, unmeasured)

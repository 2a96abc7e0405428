"""Resolves a start position to an offset in each partition of a topic."""

from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka.admin import OffsetSpec

from tidemill.cli.start_position import StartPosition
from tidemill.cli.topic_admin import TopicAdmin


class LocatedOffset(NamedTuple):
    offset: int
    log_start: int
    end_offset: int
    is_clamped: bool  # the position is an offset outside the log; `offset` is the nearest end of the log


def locate(
    admin: TopicAdmin, topic: str, partitions: Sequence[int], position: StartPosition
) -> dict[int, LocatedOffset]:
    """Return the offset at `position` in each partition.

    A timestamp after the last record of a partition resolves to the partition's end offset.
    """
    starts = admin.offsets_of(topic, partitions, OffsetSpec.earliest())
    ends = admin.offsets_of(topic, partitions, OffsetSpec.latest())
    wanted = starts
    if position.latest:
        wanted = ends
    elif position.offset is not None:
        wanted = dict.fromkeys(partitions, position.offset)
    elif position.timestamp_ms is not None:
        found = admin.offsets_of(topic, partitions, OffsetSpec.for_timestamp(position.timestamp_ms))
        wanted = {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}
    located = {}
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        nearest = min(max(wanted[partition], start), end)
        located[partition] = LocatedOffset(nearest, start, end, position.offset not in (None, nearest))
    return located

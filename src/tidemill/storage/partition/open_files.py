"""How many segments' files stay open.  A file that was closed is opened again by whoever reads it next."""

from collections.abc import Container, Iterable
from typing import Final

from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.segment import Segment

OPEN_SEGMENTS_MAX: Final = 500  # half of the 1,024 that a process usually may have; opening again costs 10 µs


def close_surplus(shards: Iterable[ShardLog], pinned: Container[Segment]) -> bool:
    """
    Let go of the surplus, closed segments first; whether none is left.  `pinned` are those that are written or not yet
    synced: a sync must see what a write met.  Files are dropped, not closed: a reader that uses one goes on with it.
    """
    opened = [
        segment
        for log in shards
        for partition in log.partitions.values()
        for segment in partition.segments
        if segment.file is not None
    ]
    surplus = len(opened) - OPEN_SEGMENTS_MAX
    if surplus <= 0:
        return True
    opened.sort(key=lambda segment: not segment.is_closed)
    free = [segment for segment in opened if segment not in pinned][:surplus]
    for segment in free:
        segment.file = None
    return len(free) == surplus

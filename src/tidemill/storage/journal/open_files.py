"""The limit on the number of open segment files.  The next reader of a closed file opens it again."""

from collections.abc import Container, Iterable
from typing import Final

from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.segment import Segment

OPEN_SEGMENTS_MAX: Final = 500  # half of the usual limit of 1,024 open files per process


def close_surplus(shards: Iterable[ShardLog], pinned: Container[Segment]) -> bool:
    """
    Drop surplus open files, starting with those of closed segments.  Return whether no surplus is left.  `pinned`
    segments are being written or have not been synced yet: the sync must use the same open file as the write, or it
    would miss a write error.
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
        segment.close()
    return len(free) == surplus

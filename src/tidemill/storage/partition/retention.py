"""Retention by time and by size: a pure function decides which segments of a partition expire, by Kafka's rules.

Whole segments expire, oldest first.  By time, a segment expires if its newest record timestamp is older than the
retention time.  The first segment that does not expire ends the search, so a record with a future timestamp also keeps
all later segments.  By size, the oldest segment expires as long as the remaining segments still contain at least the
retention size.  Only committed segments expire.

Unlike in Kafka, a segment without any record timestamp never expires by time: file times change when files are copied.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.segment import UNKNOWN_TIMESTAMP

UNBOUNDED: Final = -1


class SegmentAge(NamedTuple):
    """The properties of a segment that retention uses."""

    end_offset: int
    size_bytes: int
    max_timestamp: int  # UNKNOWN_TIMESTAMP if no record in the segment has a timestamp


def segment_ages(log: PartitionLog) -> list[SegmentAge]:
    """Return the properties of every segment that is not empty, oldest first."""
    segments = log.segments
    if not segments:
        return []  # an entry that had begun the log may have been truncated since the check of all partitions began
    ends = [*(segment.base_offset for segment in segments[1:]), log.end_offset]
    return [
        SegmentAge(end, segment.size, segment.max_timestamp)
        for segment, end in zip(segments, ends, strict=True)
        if segment.size
    ]


def retained_from(
    segments: Sequence[SegmentAge],
    *,
    high_watermark: int,
    now_ms: int,
    retention_ms: int = UNBOUNDED,
    retention_bytes: int = UNBOUNDED,
) -> int | None:
    """Return the first offset that is kept; None if no segment expires."""
    kept_from = None
    left_bytes = sum(segment.size_bytes for segment in segments)
    for segment in segments:
        if segment.end_offset > high_watermark:
            break
        too_old = (
            UNBOUNDED < retention_ms < now_ms - segment.max_timestamp and segment.max_timestamp != UNKNOWN_TIMESTAMP
        )
        too_much = UNBOUNDED < retention_bytes <= left_bytes - segment.size_bytes
        if not (too_old or too_much):
            break
        left_bytes -= segment.size_bytes
        kept_from = segment.end_offset
    return kept_from

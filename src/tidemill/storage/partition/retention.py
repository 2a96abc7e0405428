"""Which segments of a partition have to go: a pure answer, by time and by size, as Kafka's `UnifiedLog` gives it.

Whole segments go, the oldest first.  By time: one whose newest record timestamp lies further back than the retention
time; the first that does not stops the walk, so a record from the future keeps what is behind it.  By size: the oldest,
as long as what is left still has at least the retention size.  Nothing that is not committed goes.

Unlike Kafka, a segment without any record timestamp never expires by time: file times depend on who copied the file.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.segment import UNKNOWN_TIMESTAMP

UNBOUNDED: Final = -1


class SegmentAge(NamedTuple):
    """What retention knows of a segment."""

    end_offset: int
    size_bytes: int
    max_timestamp: int  # UNKNOWN_TIMESTAMP when no record in it has one


def segment_ages(log: PartitionLog) -> list[SegmentAge]:
    """Of every segment that holds something, oldest first."""
    segments = log.segments
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
    """The offset from which on records are kept; None when nothing has to go."""
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

"""Which parts of a partition a ShareFetch reads, and the read.

Most shares read one range from the first available record on.  A share with a look-ahead reads the records that are to
be acquired first; they may be scattered over the look-ahead.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidemill.batches.batch import Buffer, spans
from tidemill.broker.shares.led_share import LedShare
from tidemill.shard.partition import Partition

READ_BYTES_MIN: Final = 64 << 10  # read for one partition, so that a wrong guess of the size of records costs little
READ_BYTES_MAX: Final = 1 << 20  # read of a partition with few available records among the others
RANGES_MAX: Final = 16


class ReadRange(NamedTuple):
    first: int
    end: int
    bytes_max: int


def ranges_to_read(led: LedShare, member: str, records_max: int, bytes_max: int, wall: int) -> list[ReadRange]:
    """
    Return the ascending ranges to read for a consumer that takes up to `records_max` records; none if it must wait.
    """
    if led.leases.lock_room <= 0 or not led.leases.admits(member):
        return []
    leases, high_watermark = led.leases, led.partition.high_watermark
    wanted = min(records_max, leases.lock_room)
    if leases.availability.look_ahead is not None:
        return _scattered(led, wanted, bytes_max, wall)
    found = leases.next_available(led.share.start, high_watermark, wall)
    if found is None:
        return []
    least = led.record_bytes * wanted
    likely = max(least, min(round(least * led.sparseness), READ_BYTES_MAX))
    return [ReadRange(found.first, high_watermark, _with_margin(likely, bytes_max))]


def read_ranges(
    partition: Partition, ranges: Sequence[ReadRange], end: int, *, may_wait: bool
) -> tuple[list[Buffer], int] | None:
    """
    Read the batches with the ranges, each batch once, below `end`.  Return them and their size in bytes, or None if the
    read would wait for the disk and `may_wait` is false.  Raises as `PartitionLog.read`.
    """
    parts: list[Buffer] = []
    size = position = 0
    for one in ranges:
        if one.end <= position:
            continue
        found = partition.log.read(max(one.first, position), one.bytes_max, end, may_wait=may_wait)
        if found is None:
            return None
        parts += found[0]
        size += found[1]
        if len(ranges) > 1 and found[0]:
            position = max(span.header.end_offset for span in spans(found[0][-1]))
    return parts, size


def _scattered(led: LedShare, wanted: int, bytes_max: int, wall: int) -> list[ReadRange]:
    """Return ranges with the records that are to be acquired first.  Ranges that are near each other are joined."""
    chosen: list[tuple[int, int]] = []
    for found in led.leases.availability.preferred(wall):
        chosen.append((found.first, min(found.end, found.first + wanted)))
        wanted -= chosen[-1][1] - found.first
        if wanted <= 0 or len(chosen) == RANGES_MAX:
            break
    ranges: list[ReadRange] = []
    near = max(READ_BYTES_MIN // led.record_bytes, 1)
    for first, end in sorted(chosen):
        if ranges and first - ranges[-1].end < near:
            first = ranges.pop().first
        ranges.append(ReadRange(first, end, _with_margin(led.record_bytes * (end - first), bytes_max)))
    return ranges


def _with_margin(likely: int, bytes_max: int) -> int:
    return max(min(bytes_max, max(READ_BYTES_MIN, likely * 5 // 4)), 1)

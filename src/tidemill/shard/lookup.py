"""
Finds offsets by timestamp, for ListOffsets.  The functions may wait for the disk, so they run off the event loop: as
opening jobs, because they may decompress a batch.  They raise MalformedBatch or CompressionError if it cannot be read,
or has more than OPENED_BYTES_MAX decompressed bytes.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from tidemill.batches.batch import BatchHeader, MalformedBatch
from tidemill.batches.native import scan
from tidemill.batches.records import OPENED_BYTES_MAX, open_block, timestamps_from
from tidemill.shard.partition import Partition

READ_BYTES: Final = 1 << 20


class Stamped(NamedTuple):
    """A record's offset, timestamp (ms) and leader epoch."""

    offset: int
    timestamp: int
    leader_epoch: int


def first_at_or_after(partition: Partition, timestamp: int, end_offset: int) -> Stamped | None:
    """
    Return the first record whose timestamp is `timestamp` or later, between the log start and `end_offset`; None if
    there is none.
    """
    log = partition.log
    header = log.first_at_or_after(timestamp, end_offset)
    if header is None:
        return None
    found = _within(partition, header, timestamp, end_offset)
    if found is None:  # only a record below the log start matched; the next batch contains no such records
        header = log.first_at_or_after(timestamp, end_offset, header.end_offset)
        found = None if header is None else _within(partition, header, timestamp, end_offset)
    return found


def with_largest_timestamp(partition: Partition, end_offset: int) -> Stamped | None:
    """
    Return the first record that has the largest timestamp, between the log start and `end_offset`; None if there is no
    record.  KIP-734.
    """
    log = partition.log
    header = log.with_largest_timestamp(end_offset)
    if header is None:
        return None
    found = _within(partition, header, header.max_timestamp, end_offset)
    if found is not None:
        return found
    kept = (Stamped(*it, header.leader_epoch) for it in _kept_timestamps(partition, header, end_offset))
    behind = log.with_largest_timestamp(end_offset, header.end_offset)
    later = None if behind is None else _within(partition, behind, behind.max_timestamp, end_offset)
    return max(chain(kept, [] if later is None else [later]), key=lambda stamped: stamped.timestamp, default=None)


def _within(partition: Partition, found: BatchHeader, timestamp: int, end_offset: int) -> Stamped | None:
    log_start = partition.log.log_start
    if found.is_log_append_time:
        return Stamped(max(found.base_offset, log_start), found.max_timestamp, found.leader_epoch)
    if found.base_offset < log_start:
        kept = (it for it in _kept_timestamps(partition, found, end_offset) if it[1] >= timestamp)
        first = next(kept, None)
        return None if first is None else Stamped(*first, found.leader_epoch)
    batch = _batch_at(partition, found.base_offset, end_offset)
    if batch is None:
        return None
    header, data, start, end = open_block(batch, size_max=OPENED_BYTES_MAX)
    try:
        match = scan.first_at_or_after(data, start, end, header.record_count, header.base_timestamp, timestamp)
    except scan.MalformedRecords as problem:
        raise MalformedBatch(str(problem)) from problem
    if match is None:
        return None
    return Stamped(header.base_offset + match[0], match[1], header.leader_epoch)


def _kept_timestamps(partition: Partition, found: BatchHeader, end_offset: int) -> Iterator[tuple[int, int]]:
    """Yield (offset, timestamp) of the records of a batch that are not below the log start."""
    log_start = partition.log.log_start
    batch = _batch_at(partition, max(found.base_offset, log_start), end_offset)
    return iter(()) if batch is None else timestamps_from(batch, log_start)


def _batch_at(partition: Partition, offset: int, end_offset: int) -> memoryview | None:
    result = partition.log.read(offset, READ_BYTES, end_offset, may_wait=True)
    assert result is not None, "a read that may wait returns bytes"
    return memoryview(result[0][0]) if result[0] else None

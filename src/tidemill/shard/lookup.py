"""Offsets by timestamp: what ListOffsets asks.  May wait for the disk, so it runs off the loop."""

from typing import Final, NamedTuple

from tidemill.batches.batch import HEADER_BYTES, BatchHeader, read_header
from tidemill.batches.compression import Codec, decompress
from tidemill.batches.native import scan
from tidemill.shard.partition import Partition
from tidemill.storage.disk import Buffer

READ_BYTES: Final = 1 << 20


class Stamped(NamedTuple):
    """A record's offset and timestamp (ms), and the epoch it was written in."""

    offset: int
    timestamp: int
    leader_epoch: int


def first_at_or_after(partition: Partition, timestamp: int, end_offset: int) -> Stamped | None:
    """The first record below `end_offset` whose timestamp is `timestamp` or later."""
    header = partition.log.first_at_or_after(timestamp, end_offset)
    return None if header is None else _within(partition, header, timestamp, end_offset)


def with_largest_timestamp(partition: Partition, end_offset: int) -> Stamped | None:
    """The first of the records with the largest timestamp.  KIP-734."""
    header = partition.log.with_largest_timestamp(end_offset)
    return None if header is None else _within(partition, header, header.max_timestamp, end_offset)


def _within(partition: Partition, found: BatchHeader, timestamp: int, end_offset: int) -> Stamped | None:
    log_start = partition.log.log_start
    if found.is_log_append_time:
        return Stamped(max(found.base_offset, log_start), found.max_timestamp, found.leader_epoch)
    result = partition.log.read(max(found.base_offset, log_start), READ_BYTES, end_offset, may_wait=True)
    assert result is not None, "a read that may wait answers"
    if not result[0]:
        return None
    batch = memoryview(result[0][0])
    header = read_header(batch)
    block: Buffer = batch[HEADER_BYTES : header.size_bytes]
    if header.codec != Codec.NONE:
        block = decompress(header.codec, block)
    match = scan.first_at_or_after(block, 0, len(block), header.record_count, header.base_timestamp, timestamp)
    if match is None:
        return None
    return Stamped(header.base_offset + match[0], match[1], header.leader_epoch)

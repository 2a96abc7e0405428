"""Reads the batches of a log in order, each with its position in its segment's file."""

from collections.abc import Iterator
from typing import Final

from tidemill.batches.batch import spans
from tidemill.storage.partition.partition_log import PartitionLog

READ_BYTES: Final = 1 << 20


def positioned_batches(
    log: PartitionLog, offset: int, end_offset: int, bytes_max: int = READ_BYTES
) -> Iterator[tuple[int | None, memoryview]]:
    """
    Yield the batches of a log from the one that contains `offset` on, each with its position in its segment's file, or
    None if that is not known: the first batch may be in memory only.  A read takes about `bytes_max` bytes, and at
    least one batch.
    """
    position: int | None = None
    end_of_last = -1
    while offset < end_offset:
        found = log.read(offset, bytes_max, end_offset, may_wait=True)
        assert found is not None, "a read that may wait returns bytes"
        if not found[0]:
            return
        for data in found[0]:
            for span in spans(data):
                base_offset = span.header.base_offset
                if base_offset != end_of_last:
                    position = _position_of(log, base_offset)
                elif any(segment.base_offset == base_offset for segment in log.segments):
                    position = 0
                yield position, memoryview(data)[span.position : span.position + span.size]
                position = None if position is None else position + span.size
                end_of_last = offset = span.header.end_offset


def _position_of(log: PartitionLog, base_offset: int) -> int | None:
    found = log.place_of(base_offset, may_wait=True)
    assert found is not None, "a look-up that may wait answers"
    segment, position, _ = found
    return position if position < segment.written or base_offset == segment.base_offset else None

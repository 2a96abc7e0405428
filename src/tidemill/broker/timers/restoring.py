"""Reads the ids of timers and the rows of the index from the records that wait, after a start or an install."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidemill.batches.batch import read_header, spans
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.model.topic import TopicId
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.timer.arrival_records import arrivals_in, kept_in
from tidemill.timer.due_row import pack_rows, unpack_rows
from tidemill.timer.timer_changes import kept_arrivals
from tidemill.timer.timer_partition import TimerPartition

READ_BYTES: Final = 1 << 20


class Restored(NamedTuple):
    """The arguments of `TimerPartition.restore`."""

    rows: list[bytes]
    ids: list[tuple[int, bytes]]
    kept: list[list[int]]


def read_restored(timers: TimerPartition, logs: WaitingLogs, topic_id: TopicId) -> Restored:
    """
    Read the records that wait of a partition that is not restored.  Waits for the disk.  Raise OffsetGone or
    SegmentDamaged.
    """
    waiting = timers.waiting
    rows: list[bytes] = []
    ids: list[tuple[int, bytes]] = []
    kept: list[list[int]] = []
    first = max(waiting.first_waiting(), logs.arrivals.log_start)
    for position, batch in positioned_batches(logs.arrivals, first, waiting.end):
        found = arrivals_in(batch, read_header(batch).base_offset, position, topic_id)
        for row, arrival in zip(unpack_rows(found.rows), found.arrivals, strict=True):
            if waiting.waits(row.arrival):
                rows.append(pack_rows([row]))
                if arrival.timer_id is not None:
                    ids.append((row.arrival, arrival.timer_id))
    for position, batch in positioned_batches(logs.kept, timers.kept_start, timers.kept.end):
        found_rows = kept_in(batch, read_header(batch).base_offset, position)
        kept.append(kept_arrivals(found_rows))
        rows.append(pack_rows(row for row in unpack_rows(found_rows) if waiting.waits(row.arrival)))
    return Restored(rows, ids, kept)


def positioned_batches(log: PartitionLog, offset: int, end_offset: int) -> Iterator[tuple[int | None, memoryview]]:
    """
    Yield the batches of a log from the one that contains `offset` on, each with its position in its segment's file, or
    None if that is not known: the first batch may be in memory only.
    """
    position: int | None = None
    end_of_last = -1
    while offset < end_offset:
        found = log.read(offset, READ_BYTES, end_offset, may_wait=True)
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

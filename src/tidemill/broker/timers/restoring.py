"""Reads the ids of timers and the rows of the index from the records that wait, after a start or an install."""

from typing import NamedTuple

from tidemill.batches.batch import read_header
from tidemill.broker.timers.positioned_batches import positioned_batches
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.model.topic import TopicId
from tidemill.timer.arrival_records import arrivals_in, kept_in
from tidemill.timer.due_row import pack_rows, unpack_rows
from tidemill.timer.timer_changes import kept_arrivals
from tidemill.timer.timer_partition import TimerPartition


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

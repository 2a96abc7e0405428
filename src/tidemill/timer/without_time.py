"""Copies of released records that come back to a timer topic: dead letters, and records that are sent back."""

from typing import Final

from tidemill.batches.batch import read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.records import read_records
from tidemill.timer.due_time import DELAY, DELIVER_AT
from tidemill.timer.timer_headers import CANCEL, MISSED, SCHEDULE, SET_BY_BROKER, TIMER_ID, TIMEZONE

TIMER_HEADERS: Final = frozenset((DELAY, DELIVER_AT, TIMER_ID, CANCEL, SCHEDULE, TIMEZONE, MISSED, *SET_BY_BROKER))


def without_time(batch: bytearray) -> bytearray:
    """
    Return a batch whose records are due at once and are no timers: the copy of a record with an id would replace the
    timer that waits with it, and that of one with a schedule would recur as well.
    """
    header = read_header(batch)
    records = [
        it._replace(headers=tuple((name, value) for name, value in it.headers if name not in TIMER_HEADERS))
        for it in read_records(batch)
    ]
    return build_batch(
        records,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )

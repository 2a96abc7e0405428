"""Copies of released records that come back to a timer topic: dead letters, and records that are sent back."""

from typing import Final

from tidemill.batches.batch import HEADER_BYTES, LENGTH_BYTES, stamp_crc, write_header
from tidemill.batches.compression import Codec
from tidemill.batches.native import scan
from tidemill.batches.records import open_block
from tidemill.timer.due_time import DELAY, DELIVER_AT
from tidemill.timer.timer_headers import CANCEL, MISSED, SCHEDULE, SET_BY_BROKER, TIMER_ID, TIMEZONE

TIMER_HEADERS: Final = frozenset((DELAY, DELIVER_AT, TIMER_ID, CANCEL, SCHEDULE, TIMEZONE, MISSED, *SET_BY_BROKER))
_NAMES: Final = tuple(sorted(name.encode() for name in TIMER_HEADERS))


def without_time(batch: bytearray) -> bytearray:
    """
    Return a batch whose records are due at once and are no timers: the copy of a record with an id would replace the
    timer that waits with it, and that of one with a schedule would recur as well.
    """
    header, data, start, end = open_block(batch)
    with memoryview(data) as view, view[start:end] as block:
        copy = scan.copied_records(block, _NAMES, [()] * header.record_count, HEADER_BYTES)
    write_header(copy, header._replace(batch_length=len(copy) - LENGTH_BYTES, attributes=int(Codec.NONE)))
    stamp_crc(copy)
    return copy

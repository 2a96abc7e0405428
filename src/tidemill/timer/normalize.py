"""Rewrites the batches of a timer topic so that all replicas read the same due times from the same digits.

Only the leader does this, when it appends a batch.  After it, a batch is not compressed, so that one record can be read
alone, and says each due time in milliseconds: `tidemill-delay` and times as text have become `tidemill-deliver-at` with
digits.  Records without such a header are due at the append time of their batch.

A batch may have a hundred thousand records, and the event loop waits meanwhile.  So compiled code finds their headers
(`batches/scan`), reads those that are usual (`due_values`), and writes the records: none becomes an object.  Python
reads the headers of records that recur, which are few, and of the first record that is refused.
"""

from array import array
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from tidemill.batches.batch import HEADER_BYTES, LENGTH_BYTES, Buffer, stamp_crc, write_header
from tidemill.batches.compression import Codec
from tidemill.batches.native import scan
from tidemill.batches.records import Header, RecordBlock, open_block
from tidemill.timer.due_time import DELAY, DELIVER_AT, DUE_MS_MAX, UNLIMITED, BadDueTime, begin_ms
from tidemill.timer.native import due_values
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX, BadSchedule, Schedule, parse_schedule, shown
from tidemill.timer.timer_headers import (
    HEADERS_MAX,
    PREFIX,
    SCHEDULE,
    BadTimerId,
    timer_id,
    too_many_headers,
)

SCHEDULES_MAX: Final = 10_000  # of one partition
_NAMES: Final = tuple(name.encode() for name in due_values.NAMES)
_PREFIX: Final = PREFIX.encode()
_TIMES: Final = (DELIVER_AT.encode(), DELAY.encode())
_NUMBERS: Final = 4  # of a header that was found


class RecordRefused(ValueError):
    """A header of a record is not valid, so its batch is refused; `index` is the record's, from 0."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index


class SchedulesFull(RecordRefused):
    """The partition has no room for the schedule of a record."""


def normalized(
    batch: Buffer,
    stamp_ms: int,
    *,
    size_max: int,
    delay_ms_max: int = UNLIMITED,
    schedules_max: int = SCHEDULES_MAX,
    is_recurring: Callable[[bytes], bool] = lambda _: False,
) -> Buffer:
    """
    Return a producer's batch in the form that replicas read: the one that was given, if it needs no change.

    `stamp_ms` is the append time, from which delays count, `size_max` the most bytes of its records, decompressed, and
    `schedules_max` the most schedules that it may add.  One that replaces a schedule adds none: `is_recurring` says
    whether a schedule waits with an id.
    The batch has been checked, except for its records if they are compressed.  Raise RecordRefused, SchedulesFull, or
    ValueError if the records cannot be read or are too large.
    """
    block = open_block(batch, size_max=size_max)
    count, is_plain = block.header.record_count, block.header.codec == Codec.NONE
    found = _found_headers(block)
    latest_ms = DUE_MS_MAX if delay_ms_max == UNLIMITED else min(DUE_MS_MAX, stamp_ms + delay_ms_max)
    dues, left_over, recurring, is_text = due_values.due_times(block.data, found, count, stamp_ms, latest_ms)
    _check_schedules(block, found, recurring, schedules_max, is_recurring)
    is_plain = is_plain and not is_text
    appended = []
    for at in left_over:
        index, headers = found[at], _headers_at(block, found, at)
        try:
            due = begin_ms(headers, stamp_ms, delay_ms_max)
            timer_id(headers)
            schedule = parse_schedule(headers)
            if schedule is not None:
                due = _first(schedule, dict(headers)[SCHEDULE], due, stamp_ms, delay_ms_max)
                appended.append(index)
        except (BadDueTime, BadTimerId, BadSchedule) as problem:
            raise RecordRefused(index, str(problem)) from problem
        dues[index] = max(due, 0)
        is_plain = is_plain and schedule is None and _is_normalized(headers)
    return batch if is_plain else _rewritten(block, dues, appended)


def _found_headers(block: RecordBlock) -> "array[int]":
    """
    Return where the headers of timers are, as `scan.found_headers` does.  Raise RecordRefused if a record has so many
    headers that it would take much memory wherever it is decoded.
    """
    try:
        return scan.found_headers(
            block.data, block.start, block.end, block.header.record_count, _NAMES, _PREFIX, HEADERS_MAX
        )
    except scan.TooManyHeaders:
        counts = scan.header_counts(block.data, block.start, block.end)
        index, count = next((index, count) for index, count in enumerate(counts) if count > HEADERS_MAX)
        raise RecordRefused(index, too_many_headers(count)) from None


def _headers_at(block: RecordBlock, found: "array[int]", at: int) -> list[Header]:
    """Return the headers of timers of a record, which begin in `found` at `at`."""
    places = takewhile(lambda it: found[it] == found[at], range(at, len(found), _NUMBERS))
    return [_header_at(block, found, it) for it in places]


def _header_at(block: RecordBlock, found: "array[int]", at: int) -> Header:
    _, name, start, length = found[at : at + _NUMBERS]
    return due_values.NAMES[name], None if length < 0 else bytes(block.data[start : start + length])


def _check_schedules(
    block: RecordBlock,
    found: "array[int]",
    recurring: Sequence[tuple[int, int]],
    schedules_max: int,
    is_recurring: Callable[[bytes], bool],
) -> None:
    """Raise RecordRefused if too many records have schedules, before it is computed when they occur."""
    if len(recurring) > BATCH_SCHEDULES_MAX:
        raise RecordRefused(
            found[recurring[BATCH_SCHEDULES_MAX][0]],
            f"{len(recurring)} schedules in one batch: send at most {BATCH_SCHEDULES_MAX}",
        )
    added: dict[bytes | None, int] = {}
    for at, id_at in recurring:
        own_id = None if id_at == due_values.NO_ID else _header_at(block, found, id_at)[1]
        if own_id is None or not is_recurring(own_id):
            added.setdefault(own_id, found[at])
    if len(added) > schedules_max:
        raise SchedulesFull(
            [*added.values()][schedules_max],
            f"{len(added)} new schedules at once, of which {schedules_max} are accepted now: have at most "
            f"{SCHEDULES_MAX} in a partition; cancel some, or send them to a topic with more partitions",
        )


def _is_normalized(headers: Sequence[Header]) -> bool:
    return all(name != DELAY and (name != DELIVER_AT or (value or b"").isdigit()) for name, value in headers)


def _first(schedule: Schedule, text: bytes | None, begin_ms: int, stamp_ms: int, delay_ms_max: int) -> int:
    """
    Return the first occurrence of a schedule that begins at a moment.  Raise BadSchedule, which shows `text`, if there
    is none, or if too many are missed already.
    """
    first = schedule.first(begin_ms)
    if first is None or (delay_ms_max != UNLIMITED and first - stamp_ms > delay_ms_max):
        allowed = "the year 9999" if delay_ms_max == UNLIMITED else f"tidemill.max.delay.ms={delay_ms_max}"
        raise BadSchedule(f"{shown(SCHEDULE, text)}: the first occurrence is later than {allowed} allows")
    schedule.check_begin(first, stamp_ms)
    return first


def _rewritten(block: RecordBlock, dues: "array[int]", appended: list[int]) -> bytearray:
    """
    Return a batch whose records say in digits when they are due, those that have a header for it in its place, and
    those in `appended` in any case.
    """
    header = block.header
    batch, max_timestamp = scan.renumbered_records(
        block.data, block.start, block.end, header.base_timestamp, _TIMES, dues, appended, HEADER_BYTES
    )
    fields = {"batch_length": len(batch) - LENGTH_BYTES, "attributes": int(Codec.NONE), "max_timestamp": max_timestamp}
    write_header(batch, header._replace(**fields, last_offset_delta=header.record_count - 1))
    stamp_crc(batch)
    return batch

"""Rewrites the batches of a timer topic so that all replicas read the same due times from the same digits.

Only the leader does this, when it appends a batch.  After it, a batch is not compressed, so that one record can be read
alone, and says each due time in milliseconds: `tidemill-delay` and times as text have become `tidemill-deliver-at` with
digits.  Records without such a header are due at the append time of their batch.
"""

from collections.abc import Sequence
from typing import Final

from tidemill.batches.batch import BatchHeader, Buffer, read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.records import Header, Record, read_records
from tidemill.timer.arrival_records import numbers_in, values_in
from tidemill.timer.due_time import DELAY, DELIVER_AT, DIGITS, DUE_MS_MAX, DUE_MS_MIN, UNLIMITED, BadDueTime, due_ms
from tidemill.timer.schedule import BadSchedule, Schedule, parse_schedule
from tidemill.timer.timer_headers import CANCEL, ID_BYTES_MAX, PREFIX, SCHEDULE, TIMER_ID, BadTimerId, timer_id

SCHEDULES_MAX: Final = 10_000  # of one partition
BATCH_SCHEDULES_MAX: Final = 500  # of one batch, because the event loop computes when they occur first


class RecordRefused(ValueError):
    """A header of a record is not valid, so its batch is refused; `index` is the record's, from 0."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index


def normalized(
    batch: Buffer,
    stamp_ms: int,
    *,
    size_max: int,
    delay_ms_max: int = UNLIMITED,
    schedules_max: int = SCHEDULES_MAX,
) -> Buffer:
    """
    Return a producer's batch in the form that replicas read: the one that was given, if it needs no change.

    `stamp_ms` is the append time, from which delays count, `size_max` the most bytes of its records, decompressed, and
    `schedules_max` the most records with schedules.
    The batch has been checked, except for its records if they are compressed.  Raise RecordRefused, or ValueError if
    the records cannot be read or are too large.
    """
    header = read_header(batch)
    plain_dues = _plain_dues(batch, header, stamp_ms, delay_ms_max)
    if plain_dues is not None:
        return batch
    records = read_records(batch, size_max=size_max)
    dues, is_plain = [], header.codec == Codec.NONE
    _check_schedules(records, schedules_max)
    for index, record in enumerate(records):
        try:
            due = due_ms(record.headers, stamp_ms, delay_ms_max)
            timer_id(record.headers)
            schedule = parse_schedule(record.headers)
            if schedule is not None:
                due = _first(schedule, due, stamp_ms, delay_ms_max)
        except (BadDueTime, BadTimerId, BadSchedule) as problem:
            raise RecordRefused(index, str(problem)) from problem
        dues.append(due)
        is_plain = is_plain and schedule is None and _is_normalized(record.headers)
    if is_plain:
        return batch
    return build_batch(
        [_rewritten(record, due) for record, due in zip(records, dues, strict=True)],
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _check_schedules(records: Sequence[Record], schedules_max: int) -> None:
    """Raise RecordRefused if too many records have schedules, before it is computed when they occur."""
    recurring = [at for at, record in enumerate(records) if any(name == SCHEDULE for name, _ in record.headers)]
    if len(recurring) > schedules_max:
        raise RecordRefused(
            recurring[schedules_max],
            f"{len(recurring)} schedules in one batch, of which {schedules_max} are accepted now: send at most "
            f"{BATCH_SCHEDULES_MAX} in a batch, and have at most {SCHEDULES_MAX} in a partition",
        )


def _plain_dues(batch: Buffer, header: BatchHeader, stamp_ms: int, delay_ms_max: int) -> list[int] | None:
    """
    Return when the records of a batch are due, if it needs no change and no closer look, as most batches; else None.
    """
    if header.codec != Codec.NONE:
        return None
    dues = numbers_in(batch, header, DELIVER_AT, PREFIX, stamp_ms)
    if dues is None:
        dues = _dues_of_timers(batch, header, stamp_ms)
    due_ms_max = DUE_MS_MAX if delay_ms_max == UNLIMITED else min(DUE_MS_MAX, stamp_ms + delay_ms_max)
    return dues if dues and min(dues) >= DUE_MS_MIN and max(dues) <= due_ms_max else None


def _dues_of_timers(batch: Buffer, header: BatchHeader, stamp_ms: int) -> list[int] | None:
    """Return when the records of an uncompressed batch are due, if they have only valid times and ids; else None."""
    dues = []
    for count, (due, own_id, cancel) in values_in(batch, header, DELIVER_AT, TIMER_ID, CANCEL):
        is_due_valid = due is None or DIGITS.fullmatch(due)
        is_id_valid = cancel is None if own_id is None else 0 < len(own_id) <= ID_BYTES_MAX
        is_known = count == (due is not None) + (own_id is not None) + (cancel is not None)
        if not (is_due_valid and is_id_valid and is_known):
            return None
        dues.append(stamp_ms if due is None else int(due))
    return dues


def _is_normalized(headers: Sequence[Header]) -> bool:
    return all(name != DELAY and (name != DELIVER_AT or (value or b"").isdigit()) for name, value in headers)


def _first(schedule: Schedule, begin_ms: int, stamp_ms: int, delay_ms_max: int) -> int:
    """Return the first occurrence of a schedule that begins at a moment.  Raise BadSchedule if there is none."""
    first = schedule.first(begin_ms)
    if first is None or (delay_ms_max != UNLIMITED and first - stamp_ms > delay_ms_max):
        allowed = "the year 9999" if delay_ms_max == UNLIMITED else f"tidemill.max.delay.ms={delay_ms_max}"
        raise BadSchedule(f"{SCHEDULE}: the first occurrence is later than {allowed} allows")
    return first


def _rewritten(record: Record, due: int) -> Record:
    """
    Return a record whose header, if it has one or recurs, says when it is due in digits.  Other headers stay in order.
    """
    headers = tuple(
        (DELIVER_AT, b"%d" % due) if name in (DELAY, DELIVER_AT) else (name, value) for name, value in record.headers
    )
    names = [name for name, _ in headers]
    if SCHEDULE in names and DELIVER_AT not in names:
        headers = (*headers, (DELIVER_AT, b"%d" % due))
    return record._replace(headers=headers)

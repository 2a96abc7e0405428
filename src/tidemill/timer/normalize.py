"""Rewrites the batches of a timer topic so that all replicas read the same due times from the same digits.

Only the leader does this, when it appends a batch.  After it, a batch is not compressed, so that one record can be read
alone, and says each due time in milliseconds: `tidemill-delay` and times as text have become `tidemill-deliver-at` with
digits.  Records without such a header are due at the append time of their batch.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tidemill.batches.batch import HEADER_BYTES, BatchHeader, Buffer, read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.native import scan
from tidemill.batches.records import Header, Record, RecordBlock, open_block
from tidemill.timer.arrival_records import decoded_parts, numbers_in, values_in
from tidemill.timer.due_time import DELAY, DELIVER_AT, DIGITS, DUE_MS_MAX, DUE_MS_MIN, UNLIMITED, BadDueTime, due_ms
from tidemill.timer.schedule import BadSchedule, Schedule, parse_schedule
from tidemill.timer.timer_headers import (
    CANCEL,
    HEADERS_MAX,
    ID_BYTES_MAX,
    PREFIX,
    SCHEDULE,
    TIMER_ID,
    BadTimerId,
    timer_id,
    too_many_headers,
)

SCHEDULES_MAX: Final = 10_000  # of one partition
HEADER_BYTES_MIN: Final = 2
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
    is_recurring: Callable[[bytes], bool] = lambda _: False,
) -> Buffer:
    """
    Return a producer's batch in the form that replicas read: the one that was given, if it needs no change.

    `stamp_ms` is the append time, from which delays count, `size_max` the most bytes of its records, decompressed, and
    `schedules_max` the most schedules that it may add.  One that replaces a schedule adds none: `is_recurring` says
    whether a schedule waits with an id.
    The batch has been checked, except for its records if they are compressed.  Raise RecordRefused, or ValueError if
    the records cannot be read or are too large.
    """
    header = read_header(batch)
    plain_dues = _plain_dues(batch, header, stamp_ms, delay_ms_max)
    if plain_dues is not None:
        return batch
    parts = _Parts(open_block(batch, size_max=size_max))
    _check_header_counts(parts.block.data, parts.block.start, parts.block.end)
    _check_schedules(parts.block, schedules_max, is_recurring)
    dues: list[int] = []
    is_plain = header.codec == Codec.NONE
    for records in parts:
        for record in records:
            try:
                due = due_ms(record.headers, stamp_ms, delay_ms_max)
                timer_id(record.headers)
                schedule = parse_schedule(record.headers)
                if schedule is not None:
                    due = _first(schedule, due, stamp_ms, delay_ms_max)
            except (BadDueTime, BadTimerId, BadSchedule) as problem:
                raise RecordRefused(len(dues), str(problem)) from problem
            dues.append(due)
            is_plain = is_plain and schedule is None and _is_normalized(record.headers)
    if is_plain:
        return batch
    due_of_next = iter(dues).__next__
    rewritten = ([_rewritten(record, due_of_next()) for record in records] for records in parts)
    return build_batch(
        next(rewritten),
        further=rewritten,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


class _Parts:
    """The records of a batch, decoded part by part, again each time they are walked unless one part has them all."""

    def __init__(self, block: RecordBlock) -> None:
        self.block = block
        self._starts: array[int] = scan.record_starts(block.data, block.start, block.end)
        found, said = len(self._starts) - 1, block.header.record_count
        if not found or found != said:
            raise ValueError(f"a batch of {said} records has {found}")
        self._all: list[Record] | None = None

    def __iter__(self) -> Iterator[list[Record]]:
        if self._all is not None:
            yield self._all
            return
        for part in decoded_parts(self.block.data, self._starts, self.block.header):
            if len(part) == len(self._starts) - 1:
                self._all = part
            yield part


def _check_header_counts(block: Buffer, start: int, end: int) -> None:
    """Raise RecordRefused if a record has so many headers that it would take much memory wherever it is decoded."""
    if end - start <= HEADER_BYTES_MIN * HEADERS_MAX:
        return
    counts = scan.header_counts(block, start, end)
    if max(counts, default=0) > HEADERS_MAX:
        index, count = next((index, count) for index, count in enumerate(counts) if count > HEADERS_MAX)
        raise RecordRefused(index, too_many_headers(count))


def _check_schedules(block: RecordBlock, schedules_max: int, is_recurring: Callable[[bytes], bool]) -> None:
    """Raise RecordRefused if too many records have schedules, before it is computed when they occur."""
    count, names = block.header.record_count, (SCHEDULE.encode(), TIMER_ID.encode())
    values = scan.header_values(block.data, block.start, block.end, count, names, PREFIX.encode())
    recurring = [(at, own_id) for at, (_, (schedule, own_id)) in enumerate(values) if schedule is not None]
    if len(recurring) > BATCH_SCHEDULES_MAX:
        raise RecordRefused(
            recurring[BATCH_SCHEDULES_MAX][0],
            f"{len(recurring)} schedules in one batch: send at most {BATCH_SCHEDULES_MAX}",
        )
    added: dict[bytes | None, int] = {}
    for at, own_id in recurring:
        if own_id is None or not is_recurring(own_id):
            added.setdefault(own_id, at)
    if len(added) > schedules_max:
        raise RecordRefused(
            [*added.values()][schedules_max],
            f"{len(added)} new schedules in one batch, of which {schedules_max} are accepted now: have at most "
            f"{SCHEDULES_MAX} in a partition; cancel some, or send them to a topic with more partitions",
        )


def _plain_dues(batch: Buffer, header: BatchHeader, stamp_ms: int, delay_ms_max: int) -> list[int] | None:
    """
    Return when the records of a batch are due, if it needs no change and no closer look, as most batches; else None.
    """
    if header.codec != Codec.NONE:
        return None
    dues = numbers_in(batch, header, DELIVER_AT, PREFIX, stamp_ms, HEADERS_MAX)
    if dues is None:
        _check_header_counts(batch, HEADER_BYTES, header.size_bytes)
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
    """
    Return the first occurrence of a schedule that begins at a moment.  Raise BadSchedule if there is none, or if too
    many are missed already.
    """
    first = schedule.first(begin_ms)
    if first is None or (delay_ms_max != UNLIMITED and first - stamp_ms > delay_ms_max):
        allowed = "the year 9999" if delay_ms_max == UNLIMITED else f"tidemill.max.delay.ms={delay_ms_max}"
        raise BadSchedule(f"{SCHEDULE}: the first occurrence is later than {allowed} allows")
    schedule.check_begin(first, stamp_ms)
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

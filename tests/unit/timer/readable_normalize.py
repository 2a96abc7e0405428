"""A second, readable implementation of `normalize`, with which tests compare it: it decodes every record."""

from tidemill.batches.batch import Buffer, read_header
from tidemill.batches.builder import RecordTuple, build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.records import Record, read_records
from tidemill.timer.due_time import DELAY, DELIVER_AT, UNLIMITED, BadDueTime, begin_ms
from tidemill.timer.normalize import RecordRefused
from tidemill.timer.schedule import BadSchedule, parse_schedule
from tidemill.timer.timer_headers import SCHEDULE, BadTimerId, timer_id


def readably_normalized(batch: Buffer, stamp_ms: int, delay_ms_max: int = UNLIMITED) -> Buffer:
    """Return what `normalized` must return for a batch with few schedules and headers, or raise RecordRefused."""
    header, before = read_header(batch), read_records(batch)
    after = [_rewritten(index, record, stamp_ms, delay_ms_max) for index, record in enumerate(before)]
    if header.codec == Codec.NONE and all(map(_is_normalized, before)):
        return batch
    kept = ("base_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")
    return build_batch(after, **{name: getattr(header, name) for name in kept})


def _rewritten(index: int, record: Record, stamp_ms: int, delay_ms_max: int) -> RecordTuple:
    try:
        due = begin_ms(record.headers, stamp_ms, delay_ms_max)
        timer_id(record.headers)
        schedule = parse_schedule(record.headers)
        if schedule is not None:
            first = schedule.first(due)
            value = dict(record.headers)[SCHEDULE].decode()
            if first is None or (delay_ms_max != UNLIMITED and first - stamp_ms > delay_ms_max):
                raise BadSchedule(f"{SCHEDULE}={value!r}: the first occurrence is too late")
            schedule.check_begin(first, stamp_ms)
            due = first
    except (BadDueTime, BadTimerId, BadSchedule) as problem:
        raise RecordRefused(index, str(problem)) from problem
    own = DELIVER_AT, b"%d" % max(due, 0)
    headers = [own if name in (DELAY, DELIVER_AT) else (name, value) for name, value in record.headers]
    if schedule is not None and own not in headers:
        headers.append(own)
    return record.key, record.value, headers, record.timestamp


def _is_normalized(record: Record) -> bool:
    names = [name for name, _ in record.headers]
    is_text = any(name == DELIVER_AT and not (value or b"").isdigit() for name, value in record.headers)
    return not is_text and DELAY not in names and SCHEDULE not in names

# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads when the records of a batch are due from the values of their headers, without an object for each.

Like `batches.scan`, this file is compiled with Cython, and runs as plain Python if there is no compiler.  Import
`due_values` from `native`, which selects one of the two implementations.  The tests compare both.

Only valid headers are read here, in the forms that `due_time` and `timer_headers` describe.  Records with anything
else are left to these modules, which say what is wrong with them, and records that recur to `schedule`.

Safety: the compiler's bounds checks are off.  Where a value lies is compared with the size of the block before it is
read, and the index of a record with the number of records.
"""

from __future__ import annotations

from array import array

import cython

from tidemill.model.delayed_record import (
    ARRIVAL,
    CANCEL,
    DELAY,
    DELIVER_AT,
    DUE_MS_MIN,
    ID_BYTES_MAX,
    MISSED,
    SCHEDULE,
    TIMER_ID,
    TIMEZONE,
    YEAR_1_MS,
)

NAMES = (DELIVER_AT, DELAY, TIMER_ID, CANCEL, SCHEDULE, TIMEZONE, MISSED, ARRIVAL)
# Indexes into `NAMES`.
AT = cython.declare(cython.longlong, 0)
AFTER = cython.declare(cython.longlong, 1)
ID = cython.declare(cython.longlong, 2)
CANCELS = cython.declare(cython.longlong, 3)
RECURS = cython.declare(cython.longlong, 4)
ARRIVED = cython.declare(cython.longlong, 7)

NO_ID = -1
NOT_READ = cython.declare(cython.longlong, -1)
STAMP_MAX = cython.declare(cython.longlong, 0x3FFFFFFFFFFFFFFF)  # a delay can be added to it
DELAY_MAX = cython.declare(cython.longlong, 999999999999999999)
EARLIEST_MS = cython.declare(cython.longlong, DUE_MS_MIN)
YEAR_1 = cython.declare(cython.longlong, YEAR_1_MS)
ID_MAX = cython.declare(cython.longlong, ID_BYTES_MAX)
DAY_MS = cython.declare(cython.longlong, 86400000)
EPOCH_DAY = cython.declare(cython.longlong, 719468)  # of 1970-01-01, counted from 0000-03-01


def due_times(
    block: object,
    found: object,
    record_count: cython.Py_ssize_t,
    stamp_ms: cython.longlong,
    latest_ms: cython.longlong,
) -> tuple[array[int], list[int], list[tuple[int, int]], bool]:
    """
    Return when the records of a block are due, in ms since the epoch; the records that are left to the caller; those
    that recur, which are among them; and whether a time of the others is not in digits.

    `found` are the headers with `NAMES`, as `scan.found_headers` returns them.  A record that is left, or recurs, is
    named by where its headers begin in `found`, and one that recurs also by where its last id is there, or NO_ID.  A
    record without a time is due at `stamp_ms`, the append time, from which delays count.  None may be due after
    `latest_ms`.
    """
    view: cython.const[cython.uchar][::1] = block  # type: ignore[valid-type]
    headers: cython.const[cython.longlong][::1] = found  # type: ignore[valid-type]
    dues = array("q", [stamp_ms]) * record_count
    out: cython.longlong[::1] = dues
    left_over: list[int] = []
    recurring: list[tuple[int, int]] = []
    is_text: cython.bint = False
    count: cython.Py_ssize_t = len(headers)
    at: cython.Py_ssize_t = 0
    first: cython.Py_ssize_t
    its_id: cython.Py_ssize_t
    record: cython.longlong
    name: cython.longlong
    start: cython.longlong
    length: cython.longlong
    due: cython.longlong
    times: cython.int
    ids: cython.int
    is_clear: cython.bint
    only_cancels: cython.bint
    recurs: cython.bint
    is_written: cython.bint
    is_small: cython.bint
    was_delivered: cython.bint
    if stamp_ms < -STAMP_MAX or stamp_ms > STAMP_MAX or count % 4 != 0:
        raise ValueError(f"{count} numbers are not headers, or {stamp_ms} ms is no append time")
    while at < count:
        first = at
        record = headers[at]
        if record < 0 or record >= record_count:
            raise ValueError(f"record {record} is not one of {record_count}")
        due = stamp_ms
        its_id = NO_ID
        times = ids = 0
        only_cancels = recurs = is_written = is_small = was_delivered = False
        is_clear = True
        while at < count and headers[at] == record:
            name = headers[at + 1]
            start = headers[at + 2]
            length = headers[at + 3]
            at += 4
            if start < 0 or start > len(view) or length > len(view) - start:
                raise ValueError(f"a value of {length} bytes at {start} is outside of {len(view)} bytes")
            if name == AT:
                times += 1
                due = _digits(view, start, length)
                if due == NOT_READ:
                    due = _moment(view, start, length)
                    is_written = True
                else:
                    is_small = 0 < due and due < EARLIEST_MS
                is_clear = is_clear and due != NOT_READ
            elif name == AFTER:
                times += 1
                due = _delay(view, start, length)
                is_clear = is_clear and due != NOT_READ
                due += stamp_ms
                is_written = True
            elif name == ID:
                ids += 1
                its_id = at - 4
                is_clear = is_clear and 0 < length and length <= ID_MAX
            elif name == CANCELS:
                only_cancels = True
            elif name == ARRIVED:
                was_delivered = True
            else:
                recurs = recurs or name == RECURS
                is_clear = False
        if recurs:
            recurring.append((first, its_id))
        is_clear = is_clear and (was_delivered or not is_small)
        if is_clear and times <= 1 and ids <= 1 and (ids == 1 or not only_cancels) and due <= latest_ms:
            out[cython.cast(cython.Py_ssize_t, record)] = due
            is_text = is_text or is_written
        else:
            left_over.append(first)
    return dues, left_over, recurring, is_text


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _digits(
    view: cython.const[cython.uchar][::1],  # type: ignore[valid-type]
    start: cython.Py_ssize_t,
    length: cython.longlong,
) -> cython.longlong:
    """Return the number that 1 to 18 decimal digits write, or NOT_READ."""
    number: cython.longlong = 0
    index: cython.Py_ssize_t
    if length < 1 or length > 18:
        return NOT_READ
    for index in range(start, start + length):
        if view[index] < 48 or view[index] > 57:
            return NOT_READ
        number = 10 * number + (view[index] - 48)
    return number


@cython.cfunc
@cython.exceptval(check=False)
def _delay(
    view: cython.const[cython.uchar][::1],  # type: ignore[valid-type]
    start: cython.Py_ssize_t,
    length: cython.longlong,
) -> cython.longlong:
    """Return a delay in ms, or NOT_READ: digits, or 1 to 12 digits and a unit."""
    number: cython.longlong = _digits(view, start, length)
    unit: cython.longlong
    if number != NOT_READ or length < 2 or length > 14:
        return number
    last: cython.uchar = view[start + cython.cast(cython.Py_ssize_t, length) - 1]
    length -= 1
    if last == 115:  # s
        unit = 1000
        if view[start + cython.cast(cython.Py_ssize_t, length) - 1] == 109:  # ms
            unit = 1
            length -= 1
    elif last == 109:  # m
        unit = 60000
    elif last == 104:  # h
        unit = 3600000
    elif last == 100:  # d
        unit = DAY_MS
    else:
        return NOT_READ
    number = _digits(view, start, length)
    if number == NOT_READ or length > 12 or number > DELAY_MAX // unit:
        return NOT_READ
    return number * unit


@cython.cfunc
@cython.exceptval(check=False)
def _moment(
    view: cython.const[cython.uchar][::1],  # type: ignore[valid-type]
    start: cython.Py_ssize_t,
    length: cython.longlong,
) -> cython.longlong:
    """
    Return the moment that a time of RFC 3339 or a negative number says, in ms since the epoch, rounded up; 0 if it is
    before 1970; or NOT_READ.
    """
    moment: cython.longlong
    if length > 1 and view[start] == 45:
        moment = -_digits(view, start + 1, length - 1)
        return 0 if YEAR_1 <= moment and moment <= 0 else NOT_READ
    if length < 20 or length > 35:
        return NOT_READ
    end: cython.Py_ssize_t = start + cython.cast(cython.Py_ssize_t, length)
    year: cython.longlong = _digits(view, start, 4)
    month: cython.longlong = _digits(view, start + 5, 2)
    day: cython.longlong = _digits(view, start + 8, 2)
    hour: cython.longlong = _digits(view, start + 11, 2)
    minute: cython.longlong = _digits(view, start + 14, 2)
    second: cython.longlong = _digits(view, start + 17, 2)
    if view[start + 4] != 45 or view[start + 7] != 45 or view[start + 13] != 58 or view[start + 16] != 58:
        return NOT_READ
    if view[start + 10] != 84 and view[start + 10] != 116 and view[start + 10] != 32:  # T, t or a blank
        return NOT_READ
    if year < 1 or month < 1 or month > 12 or day < 1 or day > _month_days(year, month):
        return NOT_READ
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 60:
        return NOT_READ
    place: cython.Py_ssize_t = start + 19
    fraction_ms: cython.longlong = 0
    digits: cython.Py_ssize_t = 0
    if view[place] == 46:  # a point
        place += 1
        while place + digits < end and 48 <= view[place + digits] and view[place + digits] <= 57:
            digits += 1
        fraction_ms = _digits(view, place, digits)
        if fraction_ms == NOT_READ or digits > 9:
            return NOT_READ
        place += digits
        while digits < 9:
            fraction_ms *= 10
            digits += 1
        fraction_ms = (fraction_ms + 999999) // 1000000 if second < 60 else 0  # a leap second is the next minute
    offset_ms: cython.longlong = 0
    offset_hour: cython.longlong
    offset_minute: cython.longlong
    if end - place == 1:
        if view[place] != 90 and view[place] != 122:  # Z or z
            return NOT_READ
    elif end - place == 6 and view[place + 3] == 58 and (view[place] == 43 or view[place] == 45):
        offset_hour = _digits(view, place + 1, 2)
        offset_minute = _digits(view, place + 4, 2)
        if offset_hour < 0 or offset_hour > 23 or offset_minute < 0 or offset_minute > 59:
            return NOT_READ
        offset_ms = (60 * offset_hour + offset_minute) * 60000
        if view[place] == 45:
            offset_ms = -offset_ms
    else:
        return NOT_READ
    moment = _day(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000
    moment += fraction_ms - offset_ms
    if moment < YEAR_1:
        return NOT_READ
    return moment if moment > 0 else 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _month_days(year: cython.longlong, month: cython.longlong) -> cython.longlong:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _day(year: cython.longlong, month: cython.longlong, day: cython.longlong) -> cython.longlong:
    """Return a date of the Gregorian calendar as days since the epoch."""
    if month > 2:
        month -= 3  # years that begin in March end with the leap day
    else:
        month += 9
        year -= 1
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 1 - EPOCH_DAY

"""When a record of a timer topic is due: the headers `tidemill-deliver-at` and `tidemill-delay`.

A moment is whole milliseconds since the Unix epoch, or a date and time as in RFC 3339.  A delay is whole milliseconds,
or a whole number with a unit.  What is finer than a millisecond is rounded up, so that no record is delivered early.

A moment is refused if its number is small: it is in seconds by mistake.  Two small ones are accepted: 0, which is the
same moment in seconds, and what a broker has written itself, into a record that it has delivered.

A moment before 1970 is a time like any other: -1 is the last millisecond of 1969.  Small negative numbers may be
seconds by mistake, too, but both are past.  The log has no negative times, so the record is due at 0.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from tidemill.model.delayed_record import ARRIVAL
from tidemill.model.delayed_record import DELAY as DELAY
from tidemill.model.delayed_record import DELIVER_AT as DELIVER_AT
from tidemill.model.delayed_record import DUE_MS_MAX as DUE_MS_MAX
from tidemill.model.delayed_record import DUE_MS_MIN as DUE_MS_MIN
from tidemill.model.delayed_record import YEAR_1_MS as YEAR_1_MS
from tidemill.model.duration import parse_duration_ms

VALUE_BYTES_MAX: Final = 64
UNLIMITED: Final = -1
DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_SIGNED: Final = re.compile(rb"-?[0-9]{1,18}")
_RFC_3339: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d{2}):(\d{2}))", re.ASCII
)


class BadDueTime(ValueError):
    """
    A record does not say when it is due; the message says why, and what to write instead.  `header` is the one that is
    at fault; empty if it is no header.
    """

    def __init__(self, problem: str, header: str = "") -> None:
        super().__init__(problem)
        self.header = header


def due_ms(headers: Iterable[tuple[str, bytes | None]], stamp_ms: int, delay_ms_max: int = UNLIMITED) -> int:
    """
    Return when a record is due, in milliseconds since the epoch; `stamp_ms`, its append time, if no header says so.

    A moment in the past is due at once, and one before 1970 is 0.  Raise BadDueTime for a value that is malformed, is
    there twice, or is later than `delay_ms_max` allows.
    """
    return max(begin_ms(headers, stamp_ms, delay_ms_max), 0)


def begin_ms(headers: Iterable[tuple[str, bytes | None]], stamp_ms: int, delay_ms_max: int = UNLIMITED) -> int:
    """
    Return the moment that the headers say, like `due_ms`, but negative if it is before 1970: all occurrences of a
    schedule are multiples of its interval away from it.
    """
    found = [(name, value) for name, value in headers if name in (DELIVER_AT, DELAY, ARRIVAL)]
    given = [(name, value) for name, value in found if name != ARRIVAL]
    if not given:
        return stamp_ms
    if len(given) > 1:
        names = [*dict.fromkeys(name for name, _ in given)]
        if len(names) == 1:
            raise BadDueTime(f"the header {names[0]} is there {len(given)} times: keep one", names[0])
        raise BadDueTime(f"the headers {' and '.join(names)} are both there: keep one", names[0])
    ((name, value),) = given
    if value is None or not 0 < len(value) <= VALUE_BYTES_MAX:
        raise _bad(name, value)
    was_delivered = len(found) > len(given)
    due = _moment(value, was_delivered) if name == DELIVER_AT else stamp_ms + _delay(value)
    if due > DUE_MS_MAX or (delay_ms_max != UNLIMITED and due - stamp_ms > delay_ms_max):
        allowed = "the year 9999" if delay_ms_max == UNLIMITED else f"tidemill.max.delay.ms={delay_ms_max}"
        raise BadDueTime(f"{name}={value.decode(errors='replace')}: later than {allowed} allows", name)
    return due


def _delay(value: bytes) -> int:
    if DIGITS.fullmatch(value):
        return int(value)
    found = parse_duration_ms(value.decode("ascii", "replace"))
    if found is None:
        raise _bad(DELAY, value)
    return found


def _moment(value: bytes, was_delivered: bool) -> int:
    if _SIGNED.fullmatch(value):
        found = int(value)
        if found < YEAR_1_MS:
            raise _bad(DELIVER_AT, value)
        if 0 < found < DUE_MS_MIN and not was_delivered:
            raise BadDueTime(
                f"{DELIVER_AT}={found}: write milliseconds since the epoch; these look like seconds", DELIVER_AT
            )
        return found
    found_text = _RFC_3339.fullmatch(value.decode("ascii", "replace"))
    if found_text is None:
        raise _bad(DELIVER_AT, value)
    day, minute, second, fraction, _, sign, hours, minutes = found_text.groups()
    if int(second) > 60 or int(hours or 0) > 23 or int(minutes or 0) > 59:
        raise _bad(DELIVER_AT, value)
    try:
        begun = datetime.fromisoformat(f"{day}T{minute}:00").replace(tzinfo=UTC)
    except ValueError as error:
        raise _bad(DELIVER_AT, value) from error
    whole_ms = (begun - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    offset_ms = (int(hours or 0) * 60 + int(minutes or 0)) * 60_000
    late_ns = 0 if second == "60" else int((fraction or "0").ljust(9, "0"))  # a leap second is the next minute
    found = whole_ms + int(second) * 1_000 - (-offset_ms if sign == "-" else offset_ms) + -(-late_ns // 1_000_000)
    if found < YEAR_1_MS:
        raise _bad(DELIVER_AT, value)
    return found


def _bad(name: str, value: bytes | None) -> BadDueTime:
    shown = "null" if value is None else repr(value[: VALUE_BYTES_MAX + 1].decode(errors="replace"))
    if name == DELAY:
        fix = "whole milliseconds, or a number and ms, s, m, h or d, such as 5m"
    else:
        fix = "milliseconds since the epoch, or a time such as 2027-01-31T08:00:00Z"
    return BadDueTime(f"{name}={shown}: write {fix}", name)

"""When a record of a timer topic is due, and when it recurs: the arguments of `send` that become headers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tidemill.model.delayed_record import (
    DELAY,
    DELIVER_AT,
    DUE_MS_MAX,
    DUE_MS_MIN,
    ID_BYTES_MAX,
    MISSED,
    SCHEDULE,
    TIMER_ID,
    TIMEZONE,
)
from tidemill.sdk.durations import Duration, milliseconds
from tidemill.sdk.utf8 import utf8
from tidemill.timer.schedule import Missed

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_1: Final = datetime.min.replace(tzinfo=UTC)


class Due(NamedTuple):
    """The arguments of `send` about time; None is one that was not given."""

    delay: Duration | None = None
    at: datetime | None = None
    timer_id: str | bytes | None = None
    schedule: str | None = None
    timezone: str | None = None
    missed: str | None = None


NOW: Final = Due()


def timer_headers(due: Due) -> Iterator[tuple[str, bytes]]:
    """Yield the headers of a record.  Raise ValueError or TypeError, which name the argument."""
    delay, at, timer_id = due.delay, due.at, due.timer_id
    if delay is not None and at is not None:
        raise ValueError(f"delay={delay!r} and at={at!r}: give one of them")
    if delay is not None:
        yield DELAY, b"%d" % milliseconds("delay", delay, at_most_ms=DUE_MS_MAX)
    if at is not None:
        yield DELIVER_AT, str(moment(at)).encode()
    if timer_id is not None:
        yield TIMER_ID, _id(timer_id)
    yield from _schedule_headers(due)


def _schedule_headers(due: Due) -> Iterator[tuple[str, bytes]]:
    """Yield the headers by which a record recurs.  Brokers check what the schedule says."""
    given = {"schedule": due.schedule, "timezone": due.timezone, "missed": due.missed}
    for name, text in given.items():
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name}={text!r}: use text")
    schedule, timezone, missed = given.values()
    if schedule is None:
        if alone := [f"{name}={text!r}" for name, text in given.items() if text is not None]:
            raise ValueError(f"{' and '.join(alone)} without schedule: give it, such as schedule='every 15m'")
        return
    if due.timer_id is None:
        raise ValueError(f"schedule={schedule!r} without timer_id: give the name by which it is replaced and cancelled")
    if due.delay is not None:
        raise ValueError(f"schedule={schedule!r} and delay={due.delay!r}: say with `at` when the schedule begins")
    if missed is not None and missed not in [*Missed]:
        raise ValueError(f"missed={missed!r}: use one, all or none")
    for header, text in ((SCHEDULE, schedule), (TIMEZONE, timezone), (MISSED, missed)):
        if text is not None:
            yield header, utf8(f"{header.removeprefix('tidemill-')}={text!r}", text)


def moment(at: datetime, *, name: str = "at") -> int | str:
    """
    Return the argument `name` as brokers read it: in ms since the epoch, rounded up; before March 1973 as text, because
    they would take the digits for seconds.

    What is past is due at once, but all times of a schedule depend on when it began.
    """
    if not isinstance(at, datetime):
        raise TypeError(f"{name}={at!r}: use a datetime with a time zone; a duration is a delay")
    if at.tzinfo is None:
        raise ValueError(f"{name}={at!r}: give its time zone, such as tzinfo=datetime.UTC")
    ms = -((_EPOCH - at) // timedelta(milliseconds=1))
    return min(ms, DUE_MS_MAX) if ms >= DUE_MS_MIN else max(at, _YEAR_1).astimezone(UTC).isoformat()


def _id(timer_id: str | bytes) -> bytes:
    if not isinstance(timer_id, (str, bytes)):
        raise TypeError(f"timer_id={timer_id!r}: use text or bytes")
    found = utf8(f"timer_id={timer_id!r}", timer_id) if isinstance(timer_id, str) else timer_id
    if not 0 < len(found) <= ID_BYTES_MAX:
        raise ValueError(f"timer_id={timer_id!r}: use 1 to {ID_BYTES_MAX} bytes")
    return found

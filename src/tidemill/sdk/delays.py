"""When a record of a timer topic is due: the arguments `delay`, `at` and `timer_id`, which become headers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from tidemill.sdk.durations import Duration, milliseconds

DELAY: Final = "tidemill-delay"
DELIVER_AT: Final = "tidemill-deliver-at"
TIMER_ID: Final = "tidemill-timer-id"
DUE_MS_MIN: Final = 10**11  # March 1973; brokers take smaller numbers for seconds
DUE_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999
ID_BYTES_MAX: Final = 256
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def timer_headers(
    delay: Duration | None, at: datetime | None, timer_id: str | bytes | None
) -> Iterator[tuple[str, bytes]]:
    """Yield the headers of a record.  Raise ValueError or TypeError, which name the argument."""
    if delay is not None and at is not None:
        raise ValueError(f"delay={delay!r} and at={at!r}: give one of them")
    if delay is not None:
        yield DELAY, b"%d" % milliseconds("delay", delay, at_most_ms=DUE_MS_MAX)
    if at is not None:
        yield DELIVER_AT, b"%d" % due_ms(at)
    if timer_id is not None:
        yield TIMER_ID, _id(timer_id)


def due_ms(at: datetime, *, name: str = "at") -> int:
    """
    Return the argument `name` in ms since the epoch, rounded up.  What is past is due at once, however long ago it was.
    """
    if not isinstance(at, datetime):
        raise TypeError(f"{name}={at!r}: use a datetime with a time zone; a duration is a delay")
    if at.tzinfo is None:
        raise ValueError(f"{name}={at!r}: give its time zone, such as tzinfo=datetime.UTC")
    return min(max(-((_EPOCH - at) // timedelta(milliseconds=1)), DUE_MS_MIN), DUE_MS_MAX)


def _id(timer_id: str | bytes) -> bytes:
    if not isinstance(timer_id, (str, bytes)):
        raise TypeError(f"timer_id={timer_id!r}: use text or bytes")
    found = timer_id.encode() if isinstance(timer_id, str) else timer_id
    if not 0 < len(found) <= ID_BYTES_MAX:
        raise ValueError(f"timer_id={timer_id!r}: use 1 to {ID_BYTES_MAX} bytes")
    return found

"""The headers of timer topics, apart from those that say when a record is due (`due_time`).

tidemill-timer-id    the name of a timer in its partition: a later record with the same id replaces it
tidemill-schedule    the record recurs (`schedule`); with tidemill-timezone and tidemill-missed
tidemill-cancel      the record only cancels the timer with its id, and is not delivered
tidemill-arrival     set by the broker: the arrival number of a released record, in digits
tidemill-timestamp   set by the broker: the producer's timestamp of a released record, in digits
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final

from tidemill.model.delayed_record import ARRIVAL as ARRIVAL
from tidemill.model.delayed_record import CANCEL as CANCEL
from tidemill.model.delayed_record import ID_BYTES_MAX as ID_BYTES_MAX
from tidemill.model.delayed_record import MISSED as MISSED
from tidemill.model.delayed_record import SCHEDULE as SCHEDULE
from tidemill.model.delayed_record import TIMER_ID as TIMER_ID
from tidemill.model.delayed_record import TIMESTAMP as TIMESTAMP
from tidemill.model.delayed_record import TIMEZONE as TIMEZONE

PREFIX: Final = "tidemill-"
SET_BY_BROKER: Final = (ARRIVAL, TIMESTAMP)
ID_HASH_BYTES: Final = 16
HEADERS_MAX: Final = 10_000  # of a record: an empty one has two bytes, and takes a hundred in memory


class BadTimerId(ValueError):
    """The headers of a record do not name a timer; the message says why, and what to write instead."""


def too_many_headers(count: int) -> str:
    """Return why a record with more than HEADERS_MAX headers is refused."""
    return f"it has {count} headers: send at most {HEADERS_MAX}"


def timer_id(headers: Iterable[tuple[str, bytes | None]]) -> tuple[bytes | None, bool]:
    """
    Return the id of a record's timer, None if it has none, and whether the record only cancels it.  Raise BadTimerId.
    """
    ids = [value for name, value in headers if name == TIMER_ID]
    only_cancels = any(name == CANCEL for name, _ in headers)
    if len(ids) > 1:
        raise BadTimerId(f"the header {TIMER_ID} is there {len(ids)} times: keep one")
    if not ids:
        if only_cancels:
            raise BadTimerId(f"{CANCEL} without {TIMER_ID}: name the timer that it cancels")
        return None, False
    found = ids[0]
    if not found or len(found) > ID_BYTES_MAX:
        size = "null" if found is None else f"{len(found)} bytes"
        raise BadTimerId(f"the value of {TIMER_ID} is {size}: write 1 to {ID_BYTES_MAX} bytes")
    return found, only_cancels


def hash_of(timer_id: bytes, topic_id: bytes) -> bytes:
    """Return the hash by which replicas know a timer.  It is keyed, so that ids of two topics share no collisions."""
    return hasher(topic_id)(timer_id)


def hasher(topic_id: bytes) -> Callable[[bytes], bytes]:
    """Return `hash_of` for the timers of one topic: for many timers, it is faster to set the key once."""
    keyed = blake2b(digest_size=ID_HASH_BYTES, key=topic_id)

    def hashed(timer_id: bytes) -> bytes:
        own = keyed.copy()
        own.update(timer_id)
        return own.digest()

    return hashed

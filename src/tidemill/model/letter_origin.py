"""What the headers of a dead letter (KIP-1191) say: where the dead record was, and why it is dead."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidemill.model import dead_letters as names

_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1


class Cause(StrEnum):
    """Why a share group gave up a record."""

    REJECTED = "rejected"  # a consumer, or an operator, rejected it
    LIMIT = "limit"  # it was delivered as often as share.delivery.count.limit permits
    EXPIRED = "expired"  # its time to live passed


MESSAGES: Final[Mapping[Cause, str]] = {
    Cause.REJECTED: names.REJECTED,
    Cause.LIMIT: names.DELIVERY_LIMIT,
    Cause.EXPIRED: names.EXPIRED,
}
_CAUSES: Final = {message: cause for cause, message in MESSAGES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the headers of a dead letter say.  A field is None if its header is missing or is not valid."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    group: str | None = None
    attempts: int | None = None  # the number of deliveries
    message: str | None = None
    cause: Cause | None = None  # also None if `message` is not one of MESSAGES
    timestamp_ms: int | None = None  # of the dead record; Tidemill sends it together with the content
    omitted: str | None = None  # why the letter does not have the content of the dead record


def origin_of(headers: Iterable[tuple[str, bytes | None]]) -> Origin:
    """
    Return what the headers of a dead letter say.

    If a header is repeated, the first one counts: a letter's own headers precede those of the dead record, which may
    itself have been a letter.
    """
    found: dict[str, str | None] = {}
    for name, value in headers:
        if name.startswith(names.PREFIX) and name not in found:
            found[name] = None if value is None else value.decode(errors="replace")
    message = found.get(names.MESSAGE)
    return Origin(
        topic=found.get(names.TOPIC),
        partition=_number(found.get(names.PARTITION), _INT_MAX),
        offset=_number(found.get(names.OFFSET), _LONG_MAX),
        group=found.get(names.GROUP),
        attempts=_number(found.get(names.DELIVERY_COUNT), _INT_MAX),
        message=message,
        cause=_CAUSES.get(message) if message is not None else None,
        timestamp_ms=_number(found.get(names.TIMESTAMP), _LONG_MAX),
        omitted=found.get(names.OMITTED),
    )


def _number(text: str | None, greatest: int) -> int | None:
    """Return the number that `text` contains, or None if it is not a number from 0 to `greatest`."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= len(str(greatest))):
        return None
    number = int(text)
    return number if number <= greatest else None

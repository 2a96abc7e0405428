"""Parses a start position: `earliest`, `latest`, `offset:N`, `time:ISO-8601`, or `-10m` for ten minutes ago."""

import re
from datetime import datetime
from typing import Final, NamedTuple

from tidemill.cli.failure import Failed, usage

POSITIONS: Final = "earliest|latest|offset:N|time:ISO-8601|-10m"
_A_DURATION: Final = re.compile(r"-([0-9]+)([smhd])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class StartPosition(NamedTuple):
    """A start position.  At most one of the fields is set; if none is set, the position is the earliest offset."""

    offset: int | None = None
    timestamp_ms: int | None = None
    latest: bool = False


def parse(text: str, *, option: str, now_ms: int) -> StartPosition:
    """Parse the value of `option`.  Raise a usage error for an invalid value."""
    duration = _A_DURATION.fullmatch(text)
    if duration is not None:
        return _at(now_ms - int(duration[1]) * _UNIT_MS[duration[2]])
    match text.partition(":"):
        case ("earliest", "", ""):
            return StartPosition()
        case ("latest", "", ""):
            return StartPosition(latest=True)
        case ("offset", ":", number) if number.isascii() and number.isdigit():
            return StartPosition(offset=int(number))
        case ("time", ":", moment):
            return _at(_milliseconds(moment, option))
    raise usage(
        f"{option} {text!r}: use earliest, latest, offset:N, time:ISO-8601, for example time:2026-01-31T08:00:00Z, "
        "or a duration back from now with the unit s, m, h or d, for example -10m"
    )


def _at(timestamp_ms: int) -> StartPosition:
    return StartPosition(timestamp_ms=max(timestamp_ms, 0))  # Kafka gives negative timestamps other meanings


def _milliseconds(text: str, option: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise _not_a_time(text, option, str(error)) from error
    if moment.tzinfo is None:
        raise _not_a_time(text, option, "no time zone; add Z for UTC, or for example +01:00")
    return round(moment.timestamp() * 1000)


def _not_a_time(text: str, option: str, problem: str) -> Failed:
    return usage(f"{option} time:{text}: {problem}; write for example time:2026-01-31T08:00:00Z")

"""The start of a read: `earliest`, `latest`, `offset:N` or `time:RFC3339`."""

from dataclasses import dataclass
from datetime import datetime

from tidemill.cli.failure import usage


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPosition:
    """A start position.  At most one of the fields is set; if none is set, the position is the earliest offset."""

    offset: int | None = None
    timestamp_ms: int | None = None
    latest: bool = False


def parse(text: str) -> StartPosition:
    """Parse the value of --from.  Raise a usage error for an invalid value."""
    match text.partition(":"):
        case ("earliest", "", ""):
            return StartPosition()
        case ("latest", "", ""):
            return StartPosition(latest=True)
        case ("offset", ":", number) if number.isascii() and number.isdigit():
            return StartPosition(offset=int(number))
        case ("time", ":", moment):
            return StartPosition(timestamp_ms=_milliseconds(moment))
    raise usage(
        f"--from {text!r}: use earliest, latest, offset:N or time:RFC3339, for example time:2026-01-31T08:00:00Z"
    )


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise usage(f"--from time:{text}: {error}; write for example time:2026-01-31T08:00:00Z") from error
    if moment.tzinfo is None:
        raise usage(f"--from time:{text}: no time zone; add Z for UTC, or for example +01:00")
    return round(moment.timestamp() * 1000)

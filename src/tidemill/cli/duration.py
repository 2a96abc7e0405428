"""Parses durations such as 500ms, 10s, 5m, 2h or 7d."""

from typing import Final

from tidemill.cli.failure import usage
from tidemill.model.duration import parse_duration_ms, shown

DURATIONS: Final = "500ms|10s|5m|2h|1d"


def duration_ms(text: str, *, option: str, at_most_ms: int) -> int:
    """Return the value of `option` in milliseconds.  Raise a usage error if it is invalid or too long."""
    value = parse_duration_ms(text)
    if value is None:
        raise usage(f"{option} {text!r}: use a number and a unit: ms, s, m, h or d, for example 30s")
    if value > at_most_ms:
        raise usage(f"{option} {text}: at most {shown(at_most_ms)}")
    return value

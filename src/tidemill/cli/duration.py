"""Parses durations such as 500ms, 10s, 5m, 2h or 7d."""

import re
from typing import Final

from tidemill.cli.failure import usage

DURATIONS: Final = "500ms|10s|5m|2h|1d"
_A_DURATION: Final = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str, *, option: str, at_most_ms: int) -> int:
    """Return the value of `option` in milliseconds.  Raise a usage error if it is invalid or too long."""
    found = _A_DURATION.fullmatch(text)
    if found is None:
        raise usage(f"{option} {text!r}: use a number and a unit: ms, s, m, h or d, for example 30s")
    value = int(found[1]) * _UNIT_MS[found[2]]
    if value > at_most_ms:
        raise usage(f"{option} {text}: at most {shown(at_most_ms)}")
    return value


def shown(milliseconds: int) -> str:
    """Return a duration in its largest unit, rounded down: 59s, 3m, 2h, 4d."""
    for unit in ("d", "h", "m", "s"):
        if milliseconds >= _UNIT_MS[unit]:
            return f"{milliseconds // _UNIT_MS[unit]}{unit}"
    return f"{milliseconds}ms"

"""Durations as text: a whole number and a unit, such as 500ms, 10s, 5m, 2h or 7d."""

import re
from typing import Final

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")


def parse_duration_ms(text: str) -> int | None:
    """Return a duration in milliseconds, or None if `text` is not one."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * UNITS_MS[found[2]]


def parse_shift_ms(text: str) -> int | None:
    """Likewise for a duration that may have a sign, such as -5m."""
    sign, unsigned = (text[0], text[1:]) if text[:1] in ("+", "-") else ("+", text)
    value = parse_duration_ms(unsigned)
    return value if value is None or sign == "+" else -value


def shown(milliseconds: int) -> str:
    """Return a duration in its largest unit, rounded down: 59s, 3m, 2h, 4d."""
    for unit in ("d", "h", "m", "s"):
        if milliseconds >= UNITS_MS[unit]:
            return f"{milliseconds // UNITS_MS[unit]}{unit}"
    return f"{milliseconds}ms"

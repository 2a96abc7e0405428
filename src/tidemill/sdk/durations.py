"""Durations in the arguments of the client: `"10s"`, a `timedelta`, or a number of seconds."""

from datetime import timedelta
from math import ceil

from tidemill.model.duration import parse_duration_ms, parse_shift_ms

Duration = str | float | timedelta
"""A text with a unit (ms, s, m, h or d), a number of seconds, or a timedelta."""

DAY_MS = 86_400_000


def milliseconds(name: str, value: Duration, *, at_least_ms: int = 0, at_most_ms: int = 7 * DAY_MS) -> int:
    """
    Return the argument `name` in milliseconds, rounded up.  Raise ValueError if it is not a duration within the bounds;
    it may be negative, such as "-5m", if they allow it.
    """
    match value:
        case str():
            found = parse_duration_ms(value) if at_least_ms >= 0 else parse_shift_ms(value)
        case timedelta():
            whole, rest = divmod(value, timedelta(milliseconds=1))
            found = whole + bool(rest)
        case bool():
            found = None
        case int() | float():
            # Digits beyond a microsecond are those of the binary number.
            found = ceil(round(value * 1_000, 3)) if abs(value) < at_most_ms else at_most_ms + 1
        case _:
            found = None
    if found is None or not at_least_ms <= found <= at_most_ms:
        raise ValueError(
            f"{name}={value!r}: use a duration from {at_least_ms} ms to {at_most_ms} ms, such as '500ms', '10s' or "
            "'5m', a number of seconds, or a timedelta"
        )
    return found

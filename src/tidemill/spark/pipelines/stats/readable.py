"""Formats numbers, sizes, rates and times for people."""

from datetime import UTC, datetime
from typing import Final

from tidemill.model.data_size import size_text, three_digits

_SPACE: Final = "\u00a0"  # no line breaks between a number and its unit
_SPANS: Final = (
    (365.25 * 86_400, "year"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
    (1, "second"),
)
_RATE_UNITS: Final = ((1, "second"), (60, "minute"), (3_600, "hour"), (86_400, "day"))


def count(number: int) -> str:
    return f"{number:,}"


def short_count(number: float) -> str:
    """Return a count with three significant digits: "950", "12.3 k", "1.20 M"."""
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor * 0.9995:
            return f"{three_digits(number / factor)}{_SPACE}{unit}"
    return f"{number:.0f}" if number == int(number) else three_digits(number)


def size(size_bytes: float) -> str:
    """Return a size with three significant digits: "17 B", "1.21 MiB"."""
    return size_text(size_bytes).replace(" ", _SPACE)


def tick(number: float, *, is_size: bool) -> str:
    """Return the label of an axis tick: a count or size without insignificant digits, such as "50 k" or "1.5 MiB"."""
    number_text, _, unit = (size(number) if is_size else short_count(number)).partition(_SPACE)
    if "." in number_text:
        number_text = number_text.rstrip("0").rstrip(".")
    return f"{number_text}{_SPACE}{unit}".strip(_SPACE)


def percent(part: float, whole: float) -> str:
    """Return a share as a percentage, with one decimal below 10 %: "0.3 %", "12 %"."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.0f}{_SPACE}%" if share >= 10 or share == 0 else f"{share:.1f}{_SPACE}%"


def span(seconds: float) -> str:
    """Return a duration in its largest unit: "12.9 years", "3 hours", "0 seconds"."""
    unit, name = next((it for it in _SPANS if seconds >= it[0]), _SPANS[-1])
    number = f"{seconds / unit:.1f}".removesuffix(".0")
    return f"{number} {name}" + ("" if number == "1" else "s")


def moment(seconds: float) -> str:
    """
    Return a time in UTC: "1 Jan 2013 10:15:00 UTC".

    A time that `datetime` cannot represent is shown as a number.
    """
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} seconds since 1970"
    return f"{when.day} {when:%b %Y %H:%M:%S} UTC"


def rate_unit(per_second: float) -> tuple[int, str]:
    """Return the shortest unit of time in which a mean rate is at least 1, as its length in seconds and its name."""
    return next((it for it in _RATE_UNITS if per_second * it[0] >= 1), _RATE_UNITS[-1])


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

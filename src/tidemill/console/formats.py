"""Numbers, sizes and times as people read them."""

from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "–"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def size(size_bytes: float | None) -> str:
    """Return a size with three significant digits: "17 B", "1.21 MiB"."""
    if size_bytes is None:
        return UNKNOWN
    unit = 0
    while size_bytes >= 1_000 and unit < len(_UNITS) - 1:
        size_bytes /= 1_024
        unit += 1
    return f"{size_bytes:.0f} B" if unit == 0 else f"{_three_digits(size_bytes)} {_UNITS[unit]}"


def rate(per_second: float | None) -> str:
    """Return records per second: "0", "0.31", "12.3 k"."""
    if per_second is None:
        return UNKNOWN
    if per_second == 0:
        return "0"
    for unit, factor in (("M", 1e6), ("k", 1e3)):
        if per_second >= factor * 0.9995:
            return f"{_three_digits(per_second / factor)} {unit}"
    return _three_digits(per_second)


def milliseconds(duration_ms: float | None) -> str:
    if duration_ms is None:
        return UNKNOWN
    return f"{duration_ms / 1_000:.1f} s" if duration_ms >= 1_000 else f"{_three_digits(duration_ms)} ms"


def moment(timestamp_ms: int | None) -> str:
    """Return a timestamp in UTC, with milliseconds; one that no calendar has, as a number."""
    if timestamp_ms is None:
        return UNKNOWN
    try:
        text = datetime.fromtimestamp(timestamp_ms / 1_000, UTC).isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return text.removesuffix("+00:00")


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _three_digits(number: float) -> str:
    if number >= 100:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"

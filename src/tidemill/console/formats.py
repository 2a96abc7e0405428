"""Formats numbers, sizes and timestamps for display."""

from datetime import UTC, datetime
from typing import Final

from tidemill.console.cluster_view import Setting
from tidemill.model.data_size import size_text, three_digits

UNKNOWN: Final = "–"
_SPANS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def size(size_bytes: float | None) -> str:
    return UNKNOWN if size_bytes is None else size_text(size_bytes)


def rate(per_second: float | None) -> str:
    """Return records per second: "0", "0.31", "12.3 k"."""
    if per_second is None:
        return UNKNOWN
    if per_second == 0:
        return "0"
    for unit, factor in (("M", 1e6), ("k", 1e3)):
        if per_second >= factor * 0.9995:
            return f"{three_digits(per_second / factor)} {unit}"
    return three_digits(per_second)


def milliseconds(duration_ms: float | None) -> str:
    if duration_ms is None:
        return UNKNOWN
    if duration_ms >= 1_000:
        return f"{duration_ms / 1_000:.1f} s"
    return f"{duration_ms} ms" if isinstance(duration_ms, int) else f"{three_digits(duration_ms)} ms"


def age(duration_ms: int | None) -> str:
    """Return an age in its largest unit, rounded down: "4 days", "1 hour", "0 seconds"."""
    if duration_ms is None:
        return UNKNOWN
    seconds = max(duration_ms, 0) // 1_000
    unit, name = next((it for it in _SPANS if seconds >= it[0]), _SPANS[-1])
    return plural(seconds // unit, name)


def moment(timestamp_ms: int | None) -> str:
    """Return a timestamp in UTC, with milliseconds; or as a plain number if `datetime` cannot represent it."""
    if timestamp_ms is None:
        return UNKNOWN
    try:
        text = datetime.fromtimestamp(timestamp_ms / 1_000, UTC).isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return text.removesuffix("+00:00")


def meant(setting: Setting) -> str:
    """Return a setting of at least 1,000 ms or bytes in larger units, such as "7 days"; otherwise an empty string."""
    value = setting.value or ""
    if not value.isdigit() or int(value) < 1_000:
        return ""
    if setting.key.endswith(".bytes"):
        return size(int(value))
    if not setting.key.endswith(".ms"):
        return ""
    seconds = int(value) / 1_000
    unit, name = next((it for it in _SPANS if seconds >= it[0]), _SPANS[-1])
    return f"{seconds / unit:.3g} {name}" + ("" if seconds == unit else "s")


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

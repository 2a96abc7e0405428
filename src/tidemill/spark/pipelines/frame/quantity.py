"""Sizes and durations as people write them: 128MiB, 10m."""

import re
from datetime import timedelta
from typing import Final

_BINARY: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_size(text: str) -> int:
    """
    Parse a size such as `128MiB`, `64m`, `1gb` or `1048576`, and return it in bytes.

    Every unit is a power of 1024, as in Spark's settings.  Raise ValueError for other text and for 0.
    """
    match = re.fullmatch(r"(\d+)\s*(?:([kmgt])(?:i?b)?|b)?", text.strip().lower())
    if match is None or int(match.group(1)) == 0:
        raise ValueError("not a size; write for example 1048576, 64KiB, 128MiB or 1GiB")
    return int(match.group(1)) * _BINARY[match.group(2) or ""]


def size_text(size: int) -> str:
    """Return a size in its largest whole unit, in the format that `parse_size` accepts."""
    unit = next((unit for unit in "tgmk" if size % _BINARY[unit] == 0), "") if size else ""
    return f"{size // _BINARY[unit]}{unit.upper()}iB" if unit else str(size)


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `500ms`, `90s`, `10m`, `2h` or `1d`.  Raise ValueError for other text."""
    match = re.fullmatch(r"(\d+)\s*(ms|s|m|h|d)", text.strip().lower())
    if match is None:
        raise ValueError("not a duration; write for example 500ms, 90s, 10m, 2h or 1d")
    return timedelta(milliseconds=int(match.group(1)) * _MILLISECONDS[match.group(2)])


def duration_text(duration: timedelta) -> str:
    """Return a duration in its largest whole unit, in the format that `parse_duration` accepts."""
    milliseconds = duration // timedelta(milliseconds=1)
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if milliseconds % _MILLISECONDS[unit] == 0)
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}" if milliseconds else "0s"

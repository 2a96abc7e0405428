"""Sizes of data as text, in the largest unit that fits, with three significant digits: 17 B, 1.21 MiB, 12.4 GiB."""

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size_bytes: float) -> str:
    """Return a size as text.  A mean of sizes below 1 KiB keeps its fraction: "4.97 B"."""
    unit = 0
    while size_bytes >= 1_000 and unit < len(_UNITS) - 1:
        size_bytes /= 1_024
        unit += 1
    is_whole = unit == 0 and size_bytes == int(size_bytes)
    return f"{size_bytes:.0f} B" if is_whole else f"{three_digits(size_bytes)} {_UNITS[unit]}"


def three_digits(number: float) -> str:
    """Return a number below 1,000 with three significant digits: "0.31", "12.3", "950"."""
    if number >= 100:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"

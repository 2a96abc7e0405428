"""The histogram of a plan: the width of its time buckets, and its bars."""

from typing import Final

BUCKETS_MAX: Final = 48
BAR_MAX: Final = 40

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
WIDTHS_MS: Final = (
    *(seconds * _SECOND for seconds in (1, 5, 15)),
    *(minutes * _MINUTE for minutes in (1, 5, 15)),
    *(hours * _HOUR for hours in (1, 3, 6)),
    *(days * _DAY for days in (1, 7, 30, 365)),
)


def bucket_width_ms(first_ms: int, last_ms: int) -> int:
    """
    Return the smallest width with which at most BUCKETS_MAX buckets cover the two timestamps, or else the largest
    width.
    """
    for width in WIDTHS_MS:
        if last_ms // width - first_ms // width < BUCKETS_MAX:
            return width
    return WIDTHS_MS[-1]


def bar(count: int, count_max: int) -> str:
    """Return a bar whose length is proportional to `count`, with at least one character."""
    return "▇" * max(round(count / count_max * BAR_MAX), 1)

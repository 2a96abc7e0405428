"""Chooses the length of a chart's time steps."""

from typing import Final

STEPS_MAX: Final = 400  # more steps would be narrower than a pixel on a phone
_LENGTHS_S: Final = (
    1, 2, 5, 10, 15, 30,
    60, 2 * 60, 5 * 60, 10 * 60, 15 * 60, 30 * 60,
    3_600, 2 * 3_600, 3 * 3_600, 6 * 3_600, 12 * 3_600,
    86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400,
)  # fmt: skip


def step_length(first_s: int, last_s: int, least_s: int) -> int:
    """
    Return the length of a chart's steps in seconds: a multiple of `least_s`, the length of the time buckets that were
    counted.

    At most STEPS_MAX steps cover the times from `first_s` to `last_s`, the starts of the first and the last bucket.
    """
    for length in _LENGTHS_S:
        if length % least_s == 0 and _step_count(first_s, last_s, length) <= STEPS_MAX:
            return length
    length = least_s
    while _step_count(first_s, last_s, length) > STEPS_MAX:
        length *= 2
    return length


def _step_count(first_s: int, last_s: int, length: int) -> int:
    return last_s // length - first_s // length + 1

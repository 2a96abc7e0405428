"""Chooses the ticks of the charts' axes."""

import math
from typing import Final

_CALENDAR_S: Final = (-62_135_596_800, 253_402_300_799)  # the years 1 to 9999


def value_ticks(largest: float, *, is_size: bool, count_max: int = 5) -> list[float]:
    """
    Return at most `count_max` + 1 round numbers from 0 to at least `largest`; the last one ends the axis.

    Steps are 1, 2, 2.5 or 5 times a power of ten; for sizes they are powers of two, so that labels are whole KiB.
    """
    if largest <= 0:
        return [0.0, 1.0]
    step = _step(largest / (count_max - 1), is_size=is_size)
    return [step * number for number in range(math.ceil(largest / step) + 1)]


def whole_numbers(first: float, last: float, count_max: int) -> list[float]:
    """Return at most `count_max` + 1 round whole numbers from `first` to `last`."""
    step = max(1.0, _step((last - first) / count_max, is_size=False))
    return [step * number for number in range(math.ceil(first / step), math.floor(last / step) + 1)]


def powers_of_two(first: float, last: float, count_max: int) -> list[float]:
    """Return at most `count_max` + 1 powers of two from `first` to `last`, after 0 if the axis begins there."""
    lowest, highest = math.ceil(math.log2(max(first, 1))), math.floor(math.log2(last))
    every = max(1, math.ceil((highest - lowest) / count_max))
    found = [float(2**power) for power in range(lowest, highest + 1, every)]
    return [0.0, *found] if first <= 0 else found


def is_in_calendar(seconds: float) -> bool:
    """Return whether a calendar has this time, in seconds since 1970."""
    return _CALENDAR_S[0] <= seconds <= _CALENDAR_S[1]


def _step(least: float, *, is_size: bool) -> float:
    if is_size:
        return float(2 ** math.ceil(math.log2(least)))
    power = 10.0 ** math.floor(math.log10(least))
    factors = (1, 2, 2.5, 5, 10) if power >= 10 else (1, 2, 5, 10)
    return next(factor * power for factor in factors if factor * power >= least * (1 - 1e-9))

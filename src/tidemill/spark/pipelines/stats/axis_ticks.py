"""Chooses the ticks of the charts' axes."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

_CALENDAR_S: Final = (-62_135_596_800, 253_402_300_799)  # the years 1 to 9999
_DAY_S: Final = 86_400
_LENGTHS_S: Final = (
    1, 2, 5, 10, 15, 30,
    60, 2 * 60, 5 * 60, 10 * 60, 15 * 60, 30 * 60,
    3_600, 2 * 3_600, 3 * 3_600, 6 * 3_600, 12 * 3_600,
    _DAY_S, 2 * _DAY_S, 7 * _DAY_S, 14 * _DAY_S,
)  # fmt: skip
_MONTH_S: Final = 2_629_746  # the mean length of a month
_MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1_200, 2_400, 6_000, 12_000)


def value_ticks(largest: float, *, is_size: bool, count_max: int = 5) -> list[float]:
    """
    Return at most `count_max` + 1 round numbers from 0 to at least `largest`; the last number is the end of the axis.

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
    """Return at most `count_max` + 1 powers of two from `first` to `last`, preceded by 0 if `first` is 0."""
    lowest, highest = math.ceil(math.log2(max(first, 1))), math.floor(math.log2(last))
    every = max(1, math.ceil((highest - lowest) / count_max))
    found = [float(2**power) for power in range(lowest, highest + 1, every)]
    return [0.0, *found] if first <= 0 else found


def dates(first_s: float, last_s: float, count_max: int) -> list[tuple[float, str]]:
    """
    Return at most `count_max` + 1 tick times from `first_s` to `last_s` with their labels, in UTC.

    The times are whole seconds, minutes, hours, days, months or years; both ends must be in the years 1 to 9999.
    """
    for length in _LENGTHS_S:
        if (last_s - first_s) / length <= count_max:
            numbers = range(math.ceil(first_s / length), math.floor(last_s / length) + 1)
            return [(float(number * length), _date_label(number * length, length)) for number in numbers]
    months = next((it for it in _MONTHS if (last_s - first_s) / (it * _MONTH_S) <= count_max - 0.5), _MONTHS[-1])
    return [(place, label) for place, label in _months(first_s, last_s, months) if first_s <= place <= last_s]


def _date_label(second: int, length: int) -> str:
    when = datetime.fromtimestamp(second, UTC)
    if second % _DAY_S == 0:
        return f"{when.day} {when:%b}"
    return f"{when:%H:%M}" if length % 60 == 0 else f"{when:%H:%M:%S}"


def _months(first_s: float, last_s: float, every: int) -> Iterator[tuple[float, str]]:
    """Yield the start of every `every` months with its label, which shows the year in January."""
    first, last = (datetime.fromtimestamp(second, UTC) for second in (first_s, last_s))
    start, end = (12 * it.year + it.month - 1 for it in (first, last))
    for number in range(-(-start // every) * every, end + 1, every):
        year, month = divmod(number, 12)
        if 1 <= year <= 9_999:
            when = datetime(year, month + 1, 1, tzinfo=UTC)
            label = f"{year}" if every >= 12 else f"{when:%b} {year}" if month == 0 else f"{when:%b}"
            yield when.timestamp(), label


def is_in_calendar(seconds: float) -> bool:
    """Return whether this time, in seconds since 1970, is in the years 1 to 9999."""
    return _CALENDAR_S[0] <= seconds <= _CALENDAR_S[1]


def _step(least: float, *, is_size: bool) -> float:
    if is_size:
        return float(2 ** math.ceil(math.log2(least)))
    power = 10.0 ** math.floor(math.log10(least))
    factors = (1, 2, 2.5, 5, 10) if power >= 10 else (1, 2, 5, 10)
    return next(factor * power for factor in factors if factor * power >= least * (1 - 1e-9))

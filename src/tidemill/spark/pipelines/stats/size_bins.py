"""Chooses the bins of the distribution of record sizes."""

import math
from typing import Final

BINS_MAX: Final = 60
_LINEAR_RATIO_MAX: Final = 8  # sizes that differ by a larger factor are shown on a logarithmic axis


def is_logarithmic(smallest: int, largest: int) -> bool:
    return largest > _LINEAR_RATIO_MAX * max(smallest, 1)


def edges(smallest: int, largest: int) -> list[int]:
    """
    Return the edges of bins that contain every size from `smallest` to `largest`, in bytes.

    A bin includes its lower edge and excludes its upper edge.  The bins have equal width; on a logarithmic axis, the
    ratios of their edges are as equal as whole bytes allow.
    """
    if is_logarithmic(smallest, largest):
        return _logarithmic(max(smallest, 1), largest, has_zero=smallest == 0)
    width = _nice_width((largest + 1 - smallest) / BINS_MAX)
    first = smallest // width * width
    bin_count = (largest - first) // width + 1
    return [first + width * number for number in range(bin_count + 1)]


def _nice_width(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, … that is at least `least`."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= least:
                return factor * power
        power *= 10


def _logarithmic(smallest: int, largest: int, *, has_zero: bool) -> list[int]:
    octaves = math.log2((largest + 1) / smallest)
    per_octave = max(1, min(4, math.floor((BINS_MAX - 2) / octaves)))
    first = math.floor(math.log2(smallest) * per_octave)
    last = math.ceil(math.log2(largest + 1) * per_octave)
    found = sorted({round(2 ** (number / per_octave)) for number in range(first, last + 1)})
    found = [edge for edge in found if edge <= smallest][-1:] + [edge for edge in found if edge > smallest]
    if found[0] > smallest:
        found.insert(0, smallest)
    if found[-1] <= largest:
        found.append(largest + 1)
    return [0, *found] if has_zero else found

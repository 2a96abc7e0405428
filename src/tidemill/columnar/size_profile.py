"""Estimates where the bytes of an offset range lie, from the sizes of a few of its batches.

A stored batch never changes, so a range that is sampled again gives the same profile, as long as neither retention nor
compaction has removed its records.  Sizes are those of stored, compressed batches.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

SAMPLES_MAX: Final = 8  # per range: each sample is a request, so more would delay the plan


class BatchSize(NamedTuple):
    base_offset: int
    end_offset: int
    size: int  # bytes

    @property
    def density(self) -> float:
        return self.size / (self.end_offset - self.base_offset)


@dataclass(frozen=True, slots=True)
class SizeProfile:
    """The estimated bytes of consecutive pieces of an offset range."""

    borders: tuple[int, ...]  # offsets; piece i is [borders[i], borders[i + 1])
    sizes: tuple[float, ...]

    @property
    def total(self) -> float:
        return sum(self.sizes)

    def offset_at(self, size: float) -> int:
        """Return the offset before which the range has about `size` bytes."""
        ends = list(accumulate(self.sizes))
        piece = bisect_left(ends, size)
        if piece == len(ends):
            return self.borders[-1]
        before = ends[piece] - self.sizes[piece]
        share = (size - before) / self.sizes[piece] if self.sizes[piece] else 0.0
        return self.borders[piece] + int(share * (self.borders[piece + 1] - self.borders[piece]))


def sampled(
    start_offset: int, end_offset: int, batch_at: Callable[[int], BatchSize | None], *, samples_max: int = SAMPLES_MAX
) -> SizeProfile | None:
    """
    Return a profile of the range, or None if no batch could be sampled.

    `batch_at` returns the batch that has an offset, or None if there is none because of compaction or transactions.  A
    range of a few batches is walked batch by batch; a longer one is sampled at equal distances.
    """
    step = -(-(end_offset - start_offset) // samples_max)
    borders, densities = [start_offset], []
    while borders[-1] < end_offset:
        batch = batch_at(borders[-1])
        reach = borders[-1] + step if batch is None else max(batch.end_offset, borders[-1] + step)
        borders.append(min(reach, end_offset))
        densities.append(None if batch is None else batch.density)
    known = [density for density in densities if density is not None]
    if not known:
        return None
    usual = sum(known) / len(known)
    lengths = [end - start for start, end in pairwise(borders)]
    sizes = [
        (usual if density is None else density) * length for density, length in zip(densities, lengths, strict=True)
    ]
    return SizeProfile(tuple(borders), tuple(sizes))

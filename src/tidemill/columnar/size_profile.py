"""Estimates how the bytes of an offset range are distributed over its offsets, from the sizes of a few of its batches.

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
    size: int  # size of the batch in bytes

    def size_of(self, offset_count: int) -> int:
        """Return the estimated bytes of this many offsets, which are in the batch or near it."""
        return self.size * offset_count // (self.end_offset - self.base_offset)


@dataclass(frozen=True, slots=True)
class SizeProfile:
    """The estimated sizes, in bytes, of consecutive pieces of an offset range."""

    borders: tuple[int, ...]  # offsets; piece i is [borders[i], borders[i + 1])
    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)

    def offset_at(self, size: int) -> int:
        """Return the offset before which the range contains about `size` bytes."""
        ends = list(accumulate(self.sizes))
        piece = bisect_left(ends, size)
        if piece == len(ends):
            return self.borders[-1]
        after = size - (ends[piece] - self.sizes[piece])  # the number of bytes from the start of the piece
        start, end = self.borders[piece], self.borders[piece + 1]
        return start + (after * (end - start) // self.sizes[piece] if after else 0)

    def size_before(self, offset: int) -> int:
        """Return the estimated number of bytes that the range contains before `offset`."""
        total = 0
        for (start, end), size in zip(pairwise(self.borders), self.sizes, strict=True):
            total += size * (min(max(offset, start), end) - start) // (end - start)
        return total


def sampled(
    start_offset: int, end_offset: int, batch_at: Callable[[int], BatchSize | None], *, samples_max: int = SAMPLES_MAX
) -> SizeProfile | None:
    """
    Return a profile of the range, or None if no batch could be sampled.

    `batch_at` returns the batch that contains an offset, or None if there is none because of compaction or
    transactions.  A range of a few batches is walked batch by batch; a longer one is sampled at equal distances.
    """
    step = -(-(end_offset - start_offset) // samples_max)
    borders = [start_offset]
    batches = []
    while borders[-1] < end_offset:
        batch = batch_at(borders[-1])
        reach = borders[-1] + step if batch is None else max(batch.end_offset, borders[-1] + step)
        borders.append(min(reach, end_offset))
        batches.append(batch)
    lengths = [end - start for start, end in pairwise(borders)]
    known = [(batch.size_of(length), length) for batch, length in zip(batches, lengths, strict=True) if batch]
    if not known:
        return None
    usual = BatchSize(0, sum(length for _, length in known), sum(size for size, _ in known))
    sizes = [(batch or usual).size_of(length) for batch, length in zip(batches, lengths, strict=True)]
    return SizeProfile(tuple(borders), tuple(sizes))

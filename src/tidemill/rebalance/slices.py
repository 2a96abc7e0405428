"""Slices: long work as a generator that yields often, so that the event loop serves requests in between.

A pass over 62,500 shards takes many milliseconds.  Pure code has no clock, so it counts units of work instead; one unit
is about one look at one shard.
"""

from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

Slices = Generator[None, None, T]
"""A computation that yields between slices and returns its result at the end."""

UNITS_PER_SLICE: Final = 100  # about a quarter of a millisecond


class Work:
    """Counts units of work since the last slice ended."""

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units = 0

    def add(self, units: int) -> None:
        self._units += units

    def fills_slice(self, units: int = 1) -> bool:
        """Count `units`; return whether the caller has to yield now."""
        self._units += units
        if self._units < UNITS_PER_SLICE:
            return False
        self._units = 0
        return True


def finish(slices: Slices[T]) -> T:
    """Run all slices at once, for tests and for callers outside an event loop."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result

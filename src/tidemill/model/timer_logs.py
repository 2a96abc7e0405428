"""The logs of a timer partition, and their numbers.

A partition p of a timer topic has three logs in its shard.  Consumers read p itself: the records that have been
released.  Producers append to its arrivals, and records that wait long move from there to the kept log.  Clients never
learn the numbers of the latter two, and are not served under them.
"""

from collections.abc import Iterator
from typing import Final

ARRIVALS: Final = 1 << 30
KEPT: Final = 1 << 29


def arrivals_of(partition: int) -> int:
    """Return the number of the log to which producers append."""
    return ARRIVALS | partition


def kept_of(partition: int) -> int:
    """Return the number of the log of the records that wait long."""
    return KEPT | partition


def is_hidden(number: int) -> bool:
    """Return whether a log is not one that consumers read."""
    return number >= KEPT


def released_of(number: int) -> int:
    """Return the partition to which a log belongs."""
    return number & (KEPT - 1)


def with_hidden(partitions: range) -> Iterator[int]:
    """Yield the numbers of all logs of these partitions of a timer topic."""
    yield from partitions
    yield from map(arrivals_of, partitions)
    yield from map(kept_of, partitions)

"""Pacing: how many bytes a second a broker sends for each copy.

A copy that is sent more slowly than its shard is written to never ends.  So each gets at least twice that, whatever the
limit is, and the rest of the limit is shared evenly.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

CATCH_UP: Final = 2  # times the rate at which the shard is written to
LEAST_PART: Final = 10  # a copy gets at least a tenth of an even share, although busy shards take the limit up

Copy = TypeVar("Copy")


def send_rates(limit_bytes_per_s: int, ingest: Mapping[Copy, int]) -> dict[Copy, int]:
    """Return bytes a second for each copy that a broker sends; `ingest` has the bytes a second written to its shard."""
    rates: dict[Copy, int] = {}
    left = limit_bytes_per_s
    least = max(1, limit_bytes_per_s // (LEAST_PART * max(1, len(ingest))))
    for position, copy in enumerate(sorted(ingest, key=lambda copy: -ingest[copy])):
        share = max(least, left // (len(ingest) - position))
        rates[copy] = max(CATCH_UP * ingest[copy], share)
        left -= rates[copy]
    return rates

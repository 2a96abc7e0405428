"""Pacing: how many bytes a second a broker sends for each copy.

A copy that is sent more slowly than its shard is written to never ends.  So each gets at least twice that, whatever the
limit is, and the rest of the limit is shared evenly.
"""

from collections.abc import Mapping
from typing import Final

from tidemill.model.shard import ShardId

CATCH_UP: Final = 2  # times the rate at which the shard is written to
LEAST_PART: Final = 10  # a copy gets at least a tenth of an even share, although busy shards take the limit up


def send_rates(limit_bytes_per_s: int, ingest: Mapping[ShardId, int]) -> dict[ShardId, int]:
    """Return bytes a second for each copy that a broker sends; `ingest` has the bytes a second written to its shard."""
    rates: dict[ShardId, int] = {}
    left = limit_bytes_per_s
    least = max(1, limit_bytes_per_s // (LEAST_PART * max(1, len(ingest))))
    for position, shard_id in enumerate(sorted(ingest, key=lambda shard_id: (-ingest[shard_id], shard_id))):
        share = max(least, left // (len(ingest) - position))
        rates[shard_id] = max(CATCH_UP * ingest[shard_id], share)
        left -= rates[shard_id]
    return rates

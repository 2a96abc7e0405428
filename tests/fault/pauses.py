"""Write pauses: the longest time between two successive acknowledgements on a partition around a fault."""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence


def pause(acknowledged_at: Sequence[float], since: float, until: float) -> float:
    """
    Return the longest gap between acknowledgements, in seconds, that overlaps the time from `since` to `until`.  It is
    infinite if nothing was acknowledged after `until`, because the gap has not ended.
    """
    before = max((at for at in acknowledged_at if at <= since), default=since)
    within = [at for at in acknowledged_at if since < at <= until]
    after = min((at for at in acknowledged_at if at > until), default=math.inf)
    times = [before, *within, after]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


def pause_of_shards(
    acknowledged_at: Mapping[int, Sequence[float]], shards: Collection[range], since: float, until: float
) -> list[float]:
    """Return the pause of each shard, which is the longest pause of any of its partitions."""
    return [max(pause(acknowledged_at[it], since, until) for it in shard) for shard in shards]


def quantile(values: Sequence[float], share: float) -> float:
    """
    Return the smallest of `values` such that at least the fraction `share` (0 to 1) of all values do not exceed it.
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def table(pauses: Mapping[str, Sequence[float]]) -> str:
    """Return a text table of the pauses in milliseconds, with one line per fault."""
    lines = [f"{'writes paused, ms':<34}{'n':>5}{'p50':>8}{'p99':>8}{'max':>8}"]
    for fault, values in pauses.items():
        figures = [quantile(values, 0.5), quantile(values, 0.99), max(values)] if values else []
        lines.append(f"{fault:<34}{len(values):>5}" + "".join(f"{1_000 * value:>8.0f}" for value in figures))
    return "\n".join(lines)

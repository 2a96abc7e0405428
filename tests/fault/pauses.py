"""How long writes paused: the longest time between two acknowledgements of a partition, across a fault."""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence


def pause(acknowledged_at: Sequence[float], since: float, until: float) -> float:
    """
    Seconds; the longest gap that lies across or between `since` and `until`.  Infinite when nothing was acknowledged
    after `until`: nobody knows yet how long it is.
    """
    before = max((at for at in acknowledged_at if at <= since), default=since)
    within = [at for at in acknowledged_at if since < at <= until]
    after = min((at for at in acknowledged_at if at > until), default=math.inf)
    times = [before, *within, after]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


def pause_of_shards(
    acknowledged_at: Mapping[int, Sequence[float]], shards: Collection[range], since: float, until: float
) -> list[float]:
    """The pause of each shard: that of its partition which waited longest."""
    return [max(pause(acknowledged_at[it], since, until) for it in shard) for shard in shards]


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def table(pauses: Mapping[str, Sequence[float]]) -> str:
    """One line for each fault; milliseconds."""
    lines = [f"{'writes paused, ms':<34}{'n':>5}{'p50':>8}{'p99':>8}{'max':>8}"]
    for fault, values in pauses.items():
        figures = [quantile(values, 0.5), quantile(values, 0.99), max(values)] if values else []
        lines.append(f"{fault:<34}{len(values):>5}" + "".join(f"{1_000 * value:>8.0f}" for value in figures))
    return "\n".join(lines)

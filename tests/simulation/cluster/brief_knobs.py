"""Knobs for brief runs: the suite has time for many of them, and most bugs need a few faults and no more."""

from dataclasses import replace
from typing import Final

from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs

PARTITIONS_MAX: Final = 2
PAUSE_S_MIN: Final = 0.15  # a record costs as much time as a heartbeat, and there are enough of both
LONG_EVERY: Final = 9  # one of so many runs is not brief


def is_brief(seed: int) -> bool:
    return seed % LONG_EVERY != LONG_EVERY - 1


def brief(knobs: ClusterKnobs, duration_s: int) -> ClusterKnobs:
    """Return knobs with which faults last for `duration_s`, and less is written."""
    return replace(
        knobs,
        duration_s=duration_s,
        partitions=min(knobs.partitions, PARTITIONS_MAX),
        producers=1,
        pause_s=max(knobs.pause_s, PAUSE_S_MIN),
    )

"""The release clock: the time up to which a leader may release records that are due.

Wall clocks may be wrong, and step.  Each voter of the shard tells its own in its heartbeats; the leader takes the lower
median of all of them.  While fewer than half of the clocks are wrong, that is never ahead of the latest right one, so
no record is released early.  A reading lags, because time passes on the way, and may only lag: what has passed since it
arrived is counted by the monotonic clock, which may be fast by `drift_max`.

heartbeats ─▶ readings ─▶ one for each voter, −∞ if it is missing or old ─▶ lower median ─▶ limit, stamp
"""

from collections.abc import Collection, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

DRIFT_MAX: Final = 0.001  # how much faster than real time the monotonic clock of a real machine may run, as a fraction
READING_MS_MAX: Final = 10_000  # an older reading counts as missing: its broker may be down
AHEAD_MS_MAX: Final = 10_000  # how far a stamp may be ahead of the limit
VoterT = TypeVar("VoterT", bound=Hashable)


class _Reading(NamedTuple):
    wall_ms: int  # of the voter, when it was sent
    at_ms: int  # of this broker's monotonic clock, when it arrived


class ReleaseClock(Generic[VoterT]):
    """The readings of other voters' wall clocks.  All times are in whole milliseconds, rounded down."""

    def __init__(self, drift_max: float = DRIFT_MAX) -> None:
        """`drift_max` is how much faster than real time the monotonic clock may run, as a fraction."""
        self._drift_max = drift_max
        self._readings: dict[VoterT, _Reading] = {}

    def heard(self, voter: VoterT, wall_ms: int, at_ms: int) -> None:
        """Note the wall clock of another voter, which has just arrived; `at_ms` is the monotonic time."""
        self._readings[voter] = _Reading(wall_ms, at_ms)

    def keep_only(self, voters: Collection[VoterT]) -> None:
        """Forget those that are no voters any more."""
        self._readings = {voter: it for voter, it in self._readings.items() if voter in voters}

    def readings(self, monotonic_ms: int) -> dict[VoterT, int]:
        """Return the time that each clock shows now at least; clocks that were not heard lately are left out."""
        estimated = {voter: self._now_at(voter, monotonic_ms) for voter in self._readings}
        return {voter: wall_ms for voter, wall_ms in estimated.items() if wall_ms is not None}

    def limit(self, voters: Collection[VoterT], me: VoterT, wall_ms: int, monotonic_ms: int) -> int | None:
        """
        Return the latest time that has certainly come, or None while too few clocks are known.

        Records due at or before it may be released.  `wall_ms` and `monotonic_ms` are the clocks of this broker, `me`,
        which is one of the voters or takes no part.
        """
        known = [wall_ms if voter == me else self._now_at(voter, monotonic_ms) for voter in voters]
        readings = sorted(it for it in known if it is not None)
        missing = len(known) - len(readings)  # they come first in the order, as −∞
        index = (len(known) - 1) // 2 - missing
        return readings[index] if known and index >= 0 else None

    def _now_at(self, voter: VoterT, monotonic_ms: int) -> int | None:
        reading = self._readings.get(voter)
        if reading is None:
            return None
        passed = monotonic_ms - reading.at_ms
        if not 0 <= passed <= READING_MS_MAX:
            return None
        return reading.wall_ms + int(passed * (1 - self._drift_max))


def stamp(limit: int, wall_ms: int, last_append_ms: int) -> int:
    """
    Return the append time of an entry of a timer shard, from which delays count.

    It never goes back, and is the leader's own clock unless that one is behind the limit, or far ahead of it.
    """
    return max(last_append_ms, limit, min(wall_ms, limit + AHEAD_MS_MAX))

"""When records of a replay are due: determined by their timestamps and a speed, or by a rate."""

import math
from dataclasses import dataclass
from typing import Final

from tidemill.model.delayed_record import DUE_MS_MIN


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """
    Schedules records by their timestamps: the time between two records is the difference of their timestamps divided by
    `speed`.

    Clock times are in seconds, on any monotonic clock; timestamps are in milliseconds.
    """

    speed: float
    first_timestamp_ms: int  # the record with this timestamp is due at `began_at`
    began_at: float

    def timestamp_due(self, now: float) -> int:
        """Return the highest timestamp that is due at `now`."""
        return self.first_timestamp_ms + int((now - self.began_at) * 1_000 * self.speed)

    def due_at(self, timestamp_ms: int) -> float:
        """Return the clock time at which the records with this timestamp are due."""
        return self.began_at + (timestamp_ms - self.first_timestamp_ms) / 1_000 / self.speed


@dataclass(frozen=True, slots=True)
class Rate:
    """Schedules records at a constant rate, counted from the start of the run."""

    records_per_second: int
    began_at: float

    def due_at(self, written: int) -> float:
        """Return the clock time at which the next record may be written, after `written` records of this run."""
        return self.began_at + written / self.records_per_second


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTimes:
    """
    When records of a timer topic are due: the time between two records is the difference of their timestamps divided by
    `speed`.  All times are in milliseconds since the epoch.
    """

    first_timestamp_ms: int
    first_due_ms: int  # when a record with that timestamp is due
    speed: float = 1.0

    def due_ms(self, timestamp_ms: int) -> int:
        """
        Return when a record is due, rounded up.  What would be due before 1973, which brokers refuse, is due then; both
        are past.
        """
        since = math.ceil((timestamp_ms - self.first_timestamp_ms) / self.speed)
        return max(self.first_due_ms + since, DUE_MS_MIN)


UNSHIFTED: Final = DueTimes(first_timestamp_ms=0, first_due_ms=0)

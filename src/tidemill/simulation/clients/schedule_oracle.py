"""What the schedule of a recurring record demands, by its documentation alone: it shares no code with `timer/schedule`.

It knows the forms that the simulated producers write, and the days around the time at which a simulation runs.
"""

from bisect import bisect_right
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from tidemill.simulation.clients.cron_oracle import matches_between
from tidemill.simulation.machine.machine import BEGIN_MS
from tidemill.timer.timer_headers import MISSED, SCHEDULE, TIMEZONE

LATE_MS_MAX: Final = 60_000  # with missed=none, an occurrence that is later than this is skipped
DAY_S: Final = 86_400
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000}


class OracleSchedule(NamedTuple):
    missed: str
    interval_ms: int = 0  # of `every`; 0 with cron
    fields: str = ""
    zone: str = "UTC"

    def first(self, begin_ms: int) -> int:
        """Return the first occurrence of a schedule that begins at a moment."""
        return begin_ms if self.interval_ms else self.after(begin_ms, begin_ms - 1)

    def after(self, due_ms: int, moment_ms: int) -> int:
        """Return the first occurrence later than a moment, of those that follow the one at `due_ms`."""
        if self.interval_ms:
            return due_ms + max(0, (moment_ms - due_ms) // self.interval_ms + 1) * self.interval_ms
        matches = _matches(self.fields, self.zone)
        return matches[bisect_right(matches, moment_ms)]

    def newest(self, due_ms: int, until_ms: int) -> int:
        """Return the last occurrence not later than a moment, of the one at `due_ms` and those that follow it."""
        if until_ms <= due_ms:
            return due_ms
        if self.interval_ms:
            return due_ms + (until_ms - due_ms) // self.interval_ms * self.interval_ms
        matches = _matches(self.fields, self.zone)
        return max(due_ms, matches[bisect_right(matches, until_ms) - 1])

    def is_missed(self, due_ms: int, now_ms: int) -> bool:
        """Return whether an occurrence must not be released any more."""
        return self.missed == "none" and (now_ms - due_ms > LATE_MS_MAX or self.newest(due_ms, now_ms) > due_ms)

    def next(self, due_ms: int, now_ms: int) -> int:
        """Return the occurrence after the one at `due_ms`, which was released or skipped at `now_ms`."""
        if self.missed == "all":
            return self.after(due_ms, due_ms)
        newest = self.newest(due_ms, now_ms)
        if self.missed == "none" and newest > due_ms and now_ms - newest <= LATE_MS_MAX:
            return newest
        return self.after(due_ms, max(due_ms, now_ms))

    def skipped_at(self, due_ms: int, next_ms: int, append_time: int, latest_ms: int) -> bool:
        """
        Return whether there was a moment at which the occurrence at `due_ms` had to be skipped, and the one at
        `next_ms` followed.

        It may have been before the append time of the decision, because leaders compute in jobs.  Then the occurrence
        that followed may be missed by now, and is skipped, too.
        """
        moments = (it for it in (append_time, next_ms, next_ms - 1, latest_ms) if due_ms <= it <= latest_ms)
        return any(self.is_missed(due_ms, it) and self.next(due_ms, it) == next_ms for it in moments)


def schedule_of(headers: Mapping[str, bytes | None]) -> OracleSchedule | None:
    """Return the schedule of a record, which has one of the forms that simulated producers write."""
    text = (headers.get(SCHEDULE) or b"").decode()
    if not text:
        return None
    kind, rest = text.split(maxsplit=1)
    missed = (headers.get(MISSED) or b"one").decode()
    if kind == "every":
        return OracleSchedule(missed, int(rest[:-1]) * _UNITS_MS[rest[-1]])
    return OracleSchedule(missed, 0, rest, (headers.get(TIMEZONE) or b"UTC").decode())


@cache
def _matches(fields: str, zone: str) -> list[int]:
    """Return all occurrences from a day before a simulation begins until two days after that."""
    begin_s = BEGIN_MS // 1_000 // 60 * 60
    found = matches_between(fields, ZoneInfo(zone), begin_s - DAY_S, begin_s + 2 * DAY_S)
    return [moment_s * 1_000 for moment_s in found]

"""CronDates: cronsim's search for local times, which passes months without a matching day at once.

cronsim looks at each day of each month that matches.  A day that is rare, such as a fifth Monday of February, comes
after up to 40 years, so a search takes milliseconds.  Which days of a month match depends only on how long the month is
and on which day of the week it begins: there are 28 kinds of months, and each is looked at once.
"""

from bisect import bisect_right
from calendar import monthrange
from datetime import MAXYEAR, UTC, date, datetime
from functools import lru_cache
from typing import Final, Self

from cronsim import CronSim
from cronsim import CronSimError as CronSimError

REMEMBERED_MAX: Final = 1_024  # expressions, and pairs of fields of days: each takes a few kB
YEARS_MAX: Final = 50  # that cronsim looks ahead
_ANY: Final = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)


class CronDates(CronSim):
    def __init__(self, fields: str) -> None:
        """Raise CronSimError if a field is not valid."""
        super().__init__(fields, _ANY)
        self._known = _known_months(frozenset(self.days), frozenset(self.weekdays), self.day_and)

    def begin_after(self, local: datetime) -> Self:
        """Return the same search from another time on: the fields are not read again."""
        found = object.__new__(type(self))
        found.__dict__ |= self.__dict__
        found.dt = local
        return found

    def advance_day(self) -> bool:
        """Go to the next day that matches, or to a later month that has one; return False if this day matches."""
        if self.match_day(self.dt):
            return False
        year, month = self.dt.year, self.dt.month
        if self._has_match(year, month):
            return super().advance_day()
        months, year_max = sorted(self.months), year + YEARS_MAX  # cronsim gives up in the year after
        at = bisect_right(months, month)
        while True:
            if at == len(months):
                at, year = 0, year + 1
            if year > MAXYEAR:
                raise StopIteration
            if year > year_max or self._has_match(year, months[at]):
                break
            at += 1
        self.dt = self.dt.replace(year=year, month=months[at], day=1, hour=0, minute=0, second=0)
        return True

    def _has_match(self, year: int, month: int) -> bool:
        """Return whether a day of a month matches."""
        kind = monthrange(year, month)
        found = self._known.get(kind)
        if found is None:
            days = (date(year, month, day) for day in range(1, kind[1] + 1))
            found = self._known[kind] = any(map(self.match_day, days))
        return found


@lru_cache(maxsize=REMEMBERED_MAX)
def dates_of(fields: str) -> CronDates:
    """Return a search for five fields.  Raise CronSimError if one is not valid."""
    return CronDates(fields)


@lru_cache(maxsize=REMEMBERED_MAX)
def _known_months(
    days: frozenset[int], weekdays: frozenset[int | tuple[int, int]], day_and: bool
) -> dict[tuple[int, int], bool]:
    """
    Return whether a month has a day that matches these fields, by its first day of the week and its length, for those
    months that were looked at.  Searches for the same days share it, however their fields are spelled.
    """
    return {}

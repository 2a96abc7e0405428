"""A slow oracle of cron: it walks over all minutes, and looks at the clock in each.

It follows the rules of Debian's cron and shares no code with `timer/schedule`, nor with cronsim.
"""

from calendar import monthrange
from datetime import datetime, timedelta, tzinfo
from functools import cache

MINUTE = timedelta(minutes=1)
MONTHS = ("", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def matches_between(fields: str, zone: tzinfo, begin_s: int, end_s: int) -> list[int]:
    """Return the matches in [begin, end), in seconds since the epoch.  Both are whole minutes."""
    minute, hour, *_ = fields.split()
    follows_absolute_time = minute.startswith("*") or hour.startswith("*")
    return [
        moment_s
        for moment_s, local, skipped in _minutes(zone, begin_s, end_s)
        if (
            is_match(fields, local)
            if follows_absolute_time
            else (local.fold == 0 and is_match(fields, local)) or any(is_match(fields, it) for it in skipped)
        )
    ]


@cache
def _minutes(zone: tzinfo, begin_s: int, end_s: int) -> list[tuple[int, datetime, list[datetime]]]:
    """Return each minute, what the clock shows then, and the local times that it has skipped just before."""
    found = []
    before = datetime.fromtimestamp(begin_s - 60, zone).replace(tzinfo=None)
    for moment_s in range(begin_s, end_s, 60):
        local = datetime.fromtimestamp(moment_s, zone).replace(tzinfo=None)
        skipped = []
        while (before := before + MINUTE) < local:
            skipped.append(before)
        found.append((moment_s, local, skipped))
        before = local
    return found


def is_match(fields: str, local: datetime) -> bool:
    minute, hour, day, month, weekday = fields.split()
    if local.minute not in _numbers(minute, 0, 59) or local.hour not in _numbers(hour, 0, 23):
        return False
    is_day = any(_is_day_of_month(part, local) for part in day.split(","))
    is_weekday = any(_is_day_of_week(part, local) for part in weekday.split(","))
    are_both_needed = day[0] == "*" or weekday[0] == "*"
    is_date = is_day and is_weekday if are_both_needed else is_day or is_weekday
    return is_date and local.month in _numbers(month, 1, 12)


def _is_day_of_month(part: str, local: datetime) -> bool:
    first_weekday, last = monthrange(local.year, local.month)
    if part == "L":
        return local.day == last
    if part == "LW":
        return local.day == max(day for day in range(1, last + 1) if (first_weekday + day - 1) % 7 < 5)
    return local.day in _numbers(part, 1, 31)


def _is_day_of_week(part: str, local: datetime) -> bool:
    today = local.isoweekday() % 7
    if "#" in part:
        name, nth = part.split("#")
        return today == _number(name) % 7 and (local.day - 1) // 7 + 1 == int(nth)
    if part.endswith("L"):
        return today == int(part[:-1]) % 7 and (local + timedelta(days=7)).month != local.month
    return today in {number % 7 for number in _numbers(part, 0, 7)}


@cache
def _numbers(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        part, _, step = part.partition("/")
        first, _, last = part.partition("-")
        begin = low if part == "*" else _number(first)
        end = high if part == "*" or (step and not last) else _number(last or first)
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


def _number(text: str) -> int:
    return int(text) if text.isdigit() else (MONTHS if text in MONTHS else DAYS).index(text)

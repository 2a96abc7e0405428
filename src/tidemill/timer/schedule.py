"""Recurring records of a timer topic: the headers `tidemill-schedule`, `tidemill-timezone` and `tidemill-missed`.

    tidemill-schedule: cron 30 8 * * MON-FRI     minute, hour, day of month, month, day of week, as in Debian's cron
    tidemill-schedule: every 15m                 whole ms, s, m, h or d; at least 1 s, at most 100 years
    tidemill-timezone: Europe/Berlin             a name of the IANA; only with cron; UTC if it is missing
    tidemill-missed: one                         or all, or none; one if it is missing
    tidemill-timer-id: …                         required: a later record with the key and the id replaces the schedule

**Occurrences.**  They begin at `tidemill-deliver-at`, even if it lies in the past, and without it at the append time
of the record.  That moment is the first occurrence of `every`, and the others follow at exact multiples of the
interval, so nothing drifts.  The first occurrence of `cron` is the first match at or after that moment.
`tidemill-delay` is refused.

**Cron.**  A field is a number, a name (JAN, MON), a range, a list or a step, or `*`.  Day of month also takes L (the
last day) and LW (the last weekday); day of week also takes MON#2 (the second Monday of the month) and 5L (the last
Friday), and Sunday is 0 and 7.  If neither the day of month nor the day of week begins with `*`, a day matches when one
of them does, and otherwise when both do.  There are no seconds and no @daily.  An expression without a match in 50
years never fires and is refused.

**Clock changes.**  A job whose minute or hour begins with `*` follows absolute time: it runs in each minute whose local
time matches, so not in an hour that the clock skips, and twice in an hour that it repeats.  Any other job runs at fixed
times.  Those that the clock skips run once, together, in the first minute after the gap; those in a repeated hour run
the first time only.  This is what Debian's cron does for changes below three hours.

**Missed occurrences.**  After an outage, the record waits with a due time in the past.
 - one: it is released once, late, which stands for all occurrences up to then; the next one is in the future.
 - all: all occurrences are released, one after the other, each as late as it is.  Because they are released at once,
   a schedule with more than `MISSED_MAX` of them when its record arrives or is moved is refused.
 - none: an occurrence is skipped if it could not be released within `LATE_MS_MAX`, or before the following one.

**Who computes.**  The leader of the partition alone, and the result enters the log (NEXT), so that brokers with other
time zone data agree.  It computes the next occurrence when the release has committed, from the append time of the
release instead of the time of the computation: a new leader that finds a release without its NEXT comes to the same
result, and an outage between the two counts as one after the release.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol

from tidemill.model.duration import parse_duration_ms
from tidemill.timer.due_time import DELAY, DELIVER_AT, DUE_MS_MAX
from tidemill.timer.timer_headers import CANCEL, MISSED, SCHEDULE, TIMER_ID, TIMEZONE

VALUE_BYTES_MAX: Final = 256
EVERY_MS_MIN: Final = 1_000
EVERY_MS_MAX: Final = 36_525 * 86_400_000  # 100 years
LATE_MS_MAX: Final = 60_000  # with missed=none; longer than a failover, a restart and a late heartbeat take
MISSED_MAX: Final = 10_000  # with missed=all, when a record arrives or is moved: all are written at once
BATCH_SCHEDULES_MAX: Final = 500  # of one batch, because the event loop computes when they occur first
CRONS_MAX: Final = 1_024  # expressions that are remembered, because it takes long to find that one fires
YEARS_MAX: Final = 50  # without an occurrence for this long, a schedule is over
_NOT_ZONES: Final = ("posix/", "right/", "localtime", "posixrules", "Factory")  # with leap seconds; of this machine
_LOCAL_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_LOCAL_MAX: Final = datetime(9999, 12, 30, tzinfo=UTC).replace(tzinfo=None)  # later may be the year 10000 elsewhere
_CRON_MS_MAX: Final = DUE_MS_MAX - 2 * _DAY_MS  # cron ends two days before the year 9999 does
_CHECKED_FROM_MS: Final = 946_684_800_000  # the year 2000: an expression must fire within `YEARS_MAX` from there


class BadSchedule(ValueError):
    """
    The headers of a record say no schedule; the message says why, and what to write instead.  `header` is the one that
    is at fault.
    """

    def __init__(self, problem: str, header: str = SCHEDULE) -> None:
        super().__init__(problem)
        self.header = header


class Missed(StrEnum):
    """What happens to occurrences whose time has passed during an outage."""

    ONE = "one"
    ALL = "all"
    NONE = "none"


class _Rule(Protocol):
    def occurrences(self, anchor_ms: int, after_ms: int) -> Iterator[int]:
        """Yield the occurrences after a moment, ascending.  `anchor_ms` is one of them, or the first possible one."""
        ...

    def soonest_after(self, due_ms: int) -> int:
        """Return a moment before which no occurrence follows the one at `due_ms`.  It is not searched."""
        ...

    def most_between(self, first_ms: int, until_ms: int) -> int:
        """
        Return how many occurrences there may be from the one at `first_ms` until a moment, both included.  The cost
        does not depend on the distance.
        """
        ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a record recurs.  All times are in whole milliseconds since the epoch."""

    rule: _Rule
    missed: Missed = Missed.ONE

    def first(self, begin_ms: int) -> int | None:
        """
        Return the first occurrence of a schedule that begins at a moment; None if there is none before the year 9999
        ends.  Those before 1970 are left out, because the log has no negative times.
        """
        return next(self.rule.occurrences(begin_ms, max(begin_ms, 0) - 1), None)

    def is_missed(self, due_ms: int, now_ms: int) -> bool:
        """Return whether an occurrence that waits at `now_ms` must be skipped.  The host asks before each release."""
        if self.missed is not Missed.NONE:
            return False
        if now_ms - due_ms > LATE_MS_MAX:
            return True
        if now_ms < self.rule.soonest_after(due_ms):
            return False  # what comes next is not searched
        following = next(self.rule.occurrences(due_ms, due_ms), None)
        return following is not None and following <= now_ms

    def check_begin(self, first_ms: int, stamp_ms: int) -> None:
        """Raise BadSchedule if a record that arrives at `stamp_ms` has missed too many occurrences already."""
        missed = self._missed_at_once(first_ms, stamp_ms)
        if missed > MISSED_MAX:
            raise BadSchedule(
                f"{MISSED}=all: up to {missed} occurrences from {first_ms} ms since the epoch on are missed already, "
                f"of which at most {MISSED_MAX} are delivered late: write {MISSED}=one, or a later {DELIVER_AT}",
                MISSED,
            )

    def check_move(self, due_ms: int, now_ms: int) -> None:
        """Raise BadSchedule if a record that is moved to `due_ms` would be skipped, or has missed too many there."""
        missed = self._missed_at_once(due_ms, now_ms)
        if missed > MISSED_MAX:
            raise BadSchedule(
                f"{MISSED}=all: up to {missed} occurrences from {due_ms} ms since the epoch on would be missed "
                f"already, of which at most {MISSED_MAX} are delivered late: choose a later time"
            )
        if self.missed is Missed.NONE and now_ms - due_ms > LATE_MS_MAX:
            raise BadSchedule(
                f"{MISSED}=none: an occurrence at {due_ms} ms since the epoch would be skipped, because it was missed "
                "by more than a minute: choose a later time; with a delay of 0 it comes at once"
            )

    def _missed_at_once(self, due_ms: int, now_ms: int) -> int:
        """Return how many releases, at most, follow each other at once if a record waits for `due_ms` at `now_ms`."""
        return self.rule.most_between(due_ms, now_ms) if self.missed is Missed.ALL else 0

    def next(self, last_due_ms: int, released_ms: int) -> int | None:
        """
        Return the occurrence that follows the one at `last_due_ms`, and is always later; None if the schedule is over.

        `released_ms` is the append time of its release; if it was skipped instead, the time at which that was decided.
        """
        if self.missed is not Missed.NONE:
            after_ms = last_due_ms if self.missed is Missed.ALL else max(last_due_ms, released_ms)
            return next(self.rule.occurrences(last_due_ms, after_ms), None)
        found = None
        for due_ms in self.rule.occurrences(last_due_ms, max(last_due_ms, released_ms - LATE_MS_MAX - 1)):
            if due_ms > released_ms:  # the newest of those that are over is not too late, if there is one
                return due_ms if found is None else found
            found = due_ms
        return found


@dataclass(frozen=True, slots=True)
class Every:
    interval_ms: int

    def occurrences(self, anchor_ms: int, after_ms: int) -> Iterator[int]:
        passed = max(0, (after_ms - anchor_ms) // self.interval_ms + 1)
        yield from range(anchor_ms + passed * self.interval_ms, DUE_MS_MAX + 1, self.interval_ms)

    def soonest_after(self, due_ms: int) -> int:
        return due_ms + self.interval_ms

    def most_between(self, first_ms: int, until_ms: int) -> int:
        return max((until_ms - first_ms) // self.interval_ms + 1, 0)


@dataclass(frozen=True, slots=True)
class Cron:
    """
    Matches of five fields in a time zone.

    cronsim iterates over local times without a zone; what a clock change does to them is decided here.  Its own
    handling of zones is wrong where the clock changes by half an hour (Lord Howe Island) or at midnight (Santiago).
    """

    fields: str
    zone: tzinfo
    daily_max: int  # occurrences of a day, if it matches

    def occurrences(self, anchor_ms: int, after_ms: int) -> Iterator[int]:
        """Yield the matches after a moment; the anchor plays no part."""
        if after_ms > _CRON_MS_MAX:
            return
        minute, hour, *_ = self.fields.split()
        found = self._wildcard if minute.startswith("*") or hour.startswith("*") else self._fixed
        yield from (moment_s * 1_000 for moment_s in found(after_ms // 1_000))

    def soonest_after(self, due_ms: int) -> int:
        """Every zone is whole minutes away from UTC, since 1972."""
        return (due_ms // _MINUTE_MS + 1) * _MINUTE_MS

    def most_between(self, first_ms: int, until_ms: int) -> int:
        """Every day counts as one that matches, and an hour that the clock repeats counts once."""
        days, rest_ms = divmod(until_ms - first_ms, _DAY_MS)
        return max(days * self.daily_max + min(rest_ms // _MINUTE_MS + 1, self.daily_max), 0)

    def _fixed(self, after_s: int) -> Iterator[int]:
        """Yield the matches of a job that runs at fixed local times."""
        for moments, _ in self._matches(self._local(after_s).replace(fold=0)):
            if moments[0] > after_s:  # not so if the repeated hour has begun, or a match follows the gap at once
                after_s = moments[0]
                yield after_s

    def _wildcard(self, after_s: int) -> Iterator[int]:
        """Yield the matches of a job that follows absolute time."""
        begin = self._local(after_s).replace(fold=0)
        begin -= self._offset(begin) - self._offset(begin.replace(fold=1))  # the clock may repeat what lies between
        again: deque[int] = deque()  # the moments of matches that the clock repeats
        for moments, is_skipped in self._matches(begin):
            if is_skipped:
                continue
            while again and again[0] < moments[0]:
                yield again.popleft()
            if moments[0] > after_s:
                yield moments[0]
            again.extend(moment for moment in moments[1:] if moment > after_s)
        yield from again

    def _matches(self, after: datetime) -> Iterator[tuple[list[int], bool]]:
        """
        Yield the moments of each match after a local time, and False.  Of those that the clock skips together, yield
        the moment of the first minute after the gap, once, and True.
        """
        from tidemill.timer.cron_dates import dates_of  # imported when it is first used: most topics have no schedules

        dates = dates_of(self.fields).begin_after(after)
        try:
            for local in dates:
                if local >= _LOCAL_MAX or local.year > after.year + YEARS_MAX:
                    return
                moments = self._moments(local)
                if moments:
                    yield moments, False
                    continue
                end = self._gap_end(local)
                dates.dt = end - _MINUTE  # other matches in the gap are not searched: an hour may have 60
                yield self._moments(end), True
        except OverflowError:  # the end of the year 9999
            return

    def _moments(self, local: datetime) -> list[int]:
        """Return the seconds since the epoch at which the clock shows a local time: none, one or two, ascending."""
        first, second = self._offset(local), self._offset(local.replace(fold=1))
        if first < second:
            return []  # the clock is put forward past this time
        moment = local - _LOCAL_EPOCH
        return [(moment - it) // _SECOND for it in ((first,) if first == second else (first, second))]

    def _gap_end(self, local: datetime) -> datetime:
        """Return the first local time, in steps of a minute, that the clock shows after the gap in which one lies."""
        gap = self._offset(local.replace(fold=1)) - self._offset(local)
        steps = range(1, -(-gap // _MINUTE))
        skipped = bisect_left(steps, True, key=lambda it: bool(self._moments(local + it * _MINUTE)))
        return local + (1 + skipped) * _MINUTE

    def _local(self, moment_s: int) -> datetime:
        """Return what the clock shows, without the zone, but with `fold` 1 if it shows it for the second time."""
        return datetime.fromtimestamp(moment_s, self.zone).replace(tzinfo=None)

    def _offset(self, local: datetime) -> timedelta:
        offset = self.zone.utcoffset(local.replace(tzinfo=self.zone))
        assert offset is not None
        return offset


def may_be_missed(due_ms: int, now_ms: int) -> bool:
    """
    Return whether an occurrence that waits at `now_ms` may have to be skipped: if not, no schedule has another one by
    then, whatever it says.
    """
    return now_ms >= min(due_ms + EVERY_MS_MIN, (due_ms // _MINUTE_MS + 1) * _MINUTE_MS)


def parse_schedule(headers: Iterable[tuple[str, bytes | None]]) -> Schedule | None:
    """Return the schedule of a record, or None if its headers say none.  Raise BadSchedule."""
    pairs = [(name, value) for name, value in headers if name in (SCHEDULE, TIMEZONE, MISSED, TIMER_ID, DELAY, CANCEL)]
    given = dict(pairs)
    if not given.keys() & {SCHEDULE, TIMEZONE, MISSED}:
        return None
    names = [name for name, _ in pairs]
    for name in given:
        if names.count(name) > 1:
            raise BadSchedule(f"the header {name} is there {names.count(name)} times: keep one", name)
    if SCHEDULE not in given:
        alone = [name for name in names if name in (TIMEZONE, MISSED)]
        values = " and ".join(shown(name, given[name]) for name in alone)
        problem = f"{values} without {SCHEDULE}: add it, such as every 15m, or omit {' and '.join(alone)}"
        raise BadSchedule(problem, alone[0])
    if not given.get(TIMER_ID):
        raise BadSchedule(f"{SCHEDULE} needs the header {TIMER_ID}, by which the schedule is replaced and cancelled")
    if CANCEL in given:
        raise BadSchedule(f"{SCHEDULE} and {CANCEL} are both there: a record that cancels does not recur")
    if DELAY in given:
        raise BadSchedule(f"{SCHEDULE} and {DELAY} are both there: say with tidemill-deliver-at when it begins")
    text = _text(SCHEDULE, given[SCHEDULE], "cron and five fields, or every 15m")
    kind, rest = (*text.split(maxsplit=1), "")[:2]
    zone = _zone(given, kind)
    if kind == "cron":
        rule: _Rule = _cron(text, rest, zone)
    elif kind == "every":
        rule = _every(text, rest)
    else:
        raise BadSchedule(
            f"{SCHEDULE}={text!r}: write cron and five fields, or every and a duration, such as every 15m"
        )
    return Schedule(rule, _missed(given))


def _missed(given: dict[str, bytes | None]) -> Missed:
    if MISSED not in given:
        return Missed.ONE
    text = _text(MISSED, given[MISSED], "one, all or none")
    if text not in {*Missed}:
        raise BadSchedule(f"{MISSED}={text!r}: write one, all or none", MISSED)
    return Missed(text)


def _zone(given: dict[str, bytes | None], kind: str) -> tzinfo:
    if TIMEZONE not in given:
        return UTC
    name = _text(TIMEZONE, given[TIMEZONE], "a name of the IANA, such as Europe/Berlin")
    if kind != "cron":
        raise BadSchedule(f"{TIMEZONE}={name!r}: only a cron schedule has a time zone: omit it", TIMEZONE)
    from zoneinfo import ZoneInfo

    try:
        if name.startswith(_NOT_ZONES):
            raise ValueError("a file beside the zones")
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # malformed; a directory, or too long; unknown
        raise BadSchedule(
            f"{TIMEZONE}={name!r}: no such zone: write a name of the IANA, such as Europe/Berlin", TIMEZONE
        ) from error


def _every(text: str, rest: str) -> Every:
    interval_ms = parse_duration_ms(rest.strip())
    if interval_ms is None or not EVERY_MS_MIN <= interval_ms <= EVERY_MS_MAX:
        raise BadSchedule(f"{SCHEDULE}={text!r}: write every and a number with s, m, h or d, from 1s to 36525d")
    return Every(interval_ms)


@lru_cache(maxsize=CRONS_MAX)
def _cron(text: str, rest: str, zone: tzinfo) -> Cron:
    from tidemill.timer.cron_dates import CronSimError, dates_of

    fields = rest.split()
    if len(fields) != 5:
        raise BadSchedule(
            f"{SCHEDULE}={text!r}: write five fields instead of {len(fields)}: minute, hour, day of month, month and "
            "day of week, such as cron 30 8 * * MON-FRI"
        )
    try:
        dates = dates_of(" ".join(fields))
        cron = Cron(" ".join(fields), zone, len(dates.hours) * len(dates.minutes))
        fires = next(cron.occurrences(0, _CHECKED_FROM_MS), None) is not None
    except CronSimError as error:
        problem = str(error).lower().removeprefix("bad ")
        raise BadSchedule(
            f"{SCHEDULE}={text!r}: the field {problem} is not valid, or no month has such a day: correct it"
        ) from error
    if not fires:
        raise BadSchedule(f"{SCHEDULE}={text!r}: never fires in {YEARS_MAX} years: correct the days, hours or months")
    return cron


def shown(name: str, value: bytes | None) -> str:
    """Return a header as messages name it."""
    return f"{name}=null" if value is None else f"{name}={value[: VALUE_BYTES_MAX + 1].decode(errors='replace')!r}"


def _text(name: str, value: bytes | None, fix: str) -> str:
    if value is None:
        raise BadSchedule(f"{shown(name, value)}: write {fix}", name)
    text = value[: VALUE_BYTES_MAX + 1].decode(errors="replace")
    if len(value) > VALUE_BYTES_MAX or not value.isascii() or not text.replace("\t", " ").isprintable():
        raise BadSchedule(
            f"{shown(name, value)}: write {fix}, in at most {VALUE_BYTES_MAX} printable bytes of ASCII", name
        )
    if not text.strip():
        raise BadSchedule(f"{shown(name, value)}: write {fix}", name)
    return text

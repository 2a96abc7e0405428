"""Recurring records: when they recur, what happens to occurrences that were missed, and which headers are refused."""

import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemill.simulation.clients.cron_oracle import matches_between
from tidemill.timer.cron_dates import CronDates
from tidemill.timer.due_time import DUE_MS_MAX
from tidemill.timer.schedule import (
    EVERY_MS_MAX,
    LATE_MS_MAX,
    MISSED_MAX,
    BadSchedule,
    Cron,
    Every,
    Schedule,
    may_be_missed,
    parse_schedule,
)

BERLIN, NEW_YORK, UTC_NAME = "Europe/Berlin", "America/New_York", "UTC"
LORD_HOWE, SANTIAGO = "Australia/Lord_Howe", "America/Santiago"  # changes by half an hour; at midnight
DAY_S = 86_400
HOUR_MS = 3_600_000
# Three days around each: both clock changes, the ends of months, and the leap day.
WINDOWS = [
    (BERLIN, "2027-03-27"),
    (BERLIN, "2027-10-30"),
    (NEW_YORK, "2027-03-13"),
    (NEW_YORK, "2027-11-06"),
    (LORD_HOWE, "2027-04-03"),
    (LORD_HOWE, "2027-10-02"),
    (SANTIAGO, "2027-04-02"),
    (SANTIAGO, "2027-09-04"),
    (BERLIN, "2028-02-28"),
    (NEW_YORK, "2027-02-27"),
    (UTC_NAME, "2027-12-30"),
    (BERLIN, "2027-04-29"),
]
EXPRESSIONS = [
    "* * * * *",
    "*/15 * * * *",
    "0 * * * *",
    "30 * * * *",
    "*/15 2 * * *",
    "*/20 1-2 * * *",
    "*/30 4 * * *",
    "*/30 0 * * *",
    "0 */2 * * *",
    "30 2 * * *",
    "0,30 2 * * *",
    "30 2,3 * * *",
    "0 2,3 * * *",
    "0 3 * * *",
    "15 1-3 * * *",
    "59 1 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "59 23 * * *",
    "0 0 1 * *",
    "0 0 L * *",
    "0 12 LW * *",
    "0 0 31 * *",
    "0 0 29 2 *",
    "0 8 28-31 * *",
    "30 2 * * SUN",
    "30 8 * * MON-FRI",
    "0 8 29 * MON",
    "0 8 */2 * MON",
    "0 8 29 * */2",
    "0 8 * * 7",
    "0 8 * * 0L",
    "0 8 * * SUN#2,SUN#5",
    "0 8 * FEB,MAR *",
    "5/25 8 * * *",
]


def headers(
    schedule: str, *others: tuple[str, bytes | None], timer_id: str | None = "report"
) -> list[tuple[str, bytes | None]]:
    ids: list[tuple[str, bytes | None]] = [("tidemill-timer-id", timer_id.encode())] if timer_id is not None else []
    return [("trace", b"7"), ("tidemill-schedule", schedule.encode()), *ids, *others]


def schedule_of(text: str, *, zone: str | None = None, missed: str | None = None) -> Schedule:
    others: list[tuple[str, bytes | None]] = []
    if zone is not None:
        others.append(("tidemill-timezone", zone.encode()))
    if missed is not None:
        others.append(("tidemill-missed", missed.encode()))
    found = parse_schedule(headers(text, *others))
    assert found is not None
    return found


def ms(text: str, zone: str = UTC_NAME) -> int:
    """Return the milliseconds since the epoch of a local time."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


def shown(due_ms: int | None, zone: str = UTC_NAME) -> str:
    """Return what the clock shows at a time, with the distance from UTC."""
    assert due_ms is not None
    return datetime.fromtimestamp(due_ms / 1_000, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %z")


@given(
    st.sampled_from(["every 1s", "every 1001ms", "every 1m", "cron * * * * *", "cron 1 8 * * *", "cron */7 * * * MON"]),
    st.integers(0, 2 * 60_000),
    st.integers(0, 2 * 60_000),
)
@example("every 1s", 0, 1_000)
@example("cron * * * * *", 59_999, 1)
def test_no_schedule_skips_what_cannot_be_missed(text: str, shift_ms: int, late_ms: int) -> None:
    """
    Without the schedule, it is known that an occurrence is in time, also if it was moved.
    """
    schedule, due_ms = schedule_of(text, missed="none"), ms("2027-07-05 08:00") + shift_ms

    assert may_be_missed(due_ms, due_ms + late_ms) or not schedule.is_missed(due_ms, due_ms + late_ms)
    assert not may_be_missed(due_ms, due_ms)


def punctual(schedule: Schedule, begin_ms: int, end_ms: int) -> list[int]:
    """Return the occurrences in [begin, end) if each is released in time."""
    found = []
    due_ms = schedule.first(begin_ms)
    while due_ms is not None and due_ms < end_ms:
        found.append(due_ms)
        due_ms = schedule.next(due_ms, due_ms)
    return found


def released_during(schedule: Schedule, first_ms: int, up: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """
    Return the releases of a broker that is up in the given times only, as (due, released), and that follows the log.
    """
    releases = []
    due_ms: int | None = first_ms
    for begin_ms, end_ms in up:
        while due_ms is not None and (now_ms := max(begin_ms, due_ms)) < end_ms:
            if not schedule.is_missed(due_ms, now_ms):
                releases.append((due_ms, now_ms))
            due_ms = schedule.next(due_ms, now_ms)
    return releases


# When a record recurs.


@pytest.mark.parametrize(("zone", "first_day"), WINDOWS)
@pytest.mark.parametrize("fields", EXPRESSIONS)
def test_cron_is_that_of_the_minute_by_minute_oracle(fields: str, zone: str, first_day: str) -> None:
    """
    Across the clock changes of four zones, at the ends of months and on the leap day, a job runs in the minutes in
    which Debian's cron runs it, and the result does not depend on where the computation begins.
    """
    schedule = schedule_of(f"cron {fields}", zone=zone)
    begin_s = ms(f"{first_day} 00:00", zone) // 1_000
    end_s = begin_s + 3 * DAY_S

    expected = [moment_s * 1_000 for moment_s in matches_between(fields, ZoneInfo(zone), begin_s, end_s)]

    assert expected == punctual(schedule, begin_s * 1_000, end_s * 1_000)
    for start_ms in range(begin_s * 1_000 - 1, end_s * 1_000, 397 * 60_000):
        first = next((due_ms for due_ms in expected if due_ms >= start_ms), None)
        found = schedule.first(start_ms)
        assert first == (None if found is None or found >= end_s * 1_000 else found)


@st.composite
def random_fields(draw: st.DrawFn) -> str:
    def field(low: int, high: int, *special: str) -> str:
        number = st.integers(low, high)
        span = st.lists(number, min_size=2, max_size=2, unique=True).map(lambda two: f"{min(two)}-{max(two)}")
        parts = st.one_of(
            number.map(str), span, st.builds("{}/{}".format, span, st.integers(1, 9)), *map(st.just, special)
        )
        stars = st.one_of(st.just("*"), st.integers(2, 20).map("*/{}".format))
        return draw(st.one_of(stars, st.lists(parts, min_size=1, max_size=3).map(",".join)))

    hours = draw(st.sampled_from(["0-3", "1,2", "2", "*", "*/2", "0", "23", "1-4/2"]))
    return " ".join(
        (field(0, 59), hours, field(1, 31, "L", "LW"), field(1, 12, "MAR"), field(0, 7, "SUN", "SUN#2", "5L", "MON#1"))
    )


@settings(deadline=None, max_examples=100)
@given(fields=random_fields(), window=st.sampled_from(WINDOWS), start_minute=st.integers(0, 3 * 1440))
def test_any_cron_is_that_of_the_minute_by_minute_oracle(
    fields: str, window: tuple[str, str], start_minute: int
) -> None:
    """
    The result equals that of the oracle from any minute on.  In zones that change by an hour and not at midnight, it is
    also that of cronsim with the zone.
    """
    zone, first_day = window
    try:
        schedule = schedule_of(f"cron {fields}", zone=zone)
    except BadSchedule:
        return
    begin_s = ms(f"{first_day} 00:00", zone) // 1_000
    end_s = begin_s + 3 * DAY_S
    start_s = begin_s + start_minute * 60

    expected = matches_between(fields, ZoneInfo(zone), start_s, end_s)

    assert [moment_s * 1_000 for moment_s in expected] == punctual(schedule, start_s * 1_000, end_s * 1_000)
    if zone in (BERLIN, NEW_YORK):
        before = datetime.fromtimestamp(begin_s - 1, ZoneInfo(zone))
        others = takewhile(lambda it: it.timestamp() < end_s, CronSim(fields, before))
        assert [int(it.timestamp()) for it in others] == matches_between(fields, ZoneInfo(zone), begin_s, end_s)


def test_a_time_that_the_clock_skips_comes_right_after() -> None:
    """
    In Berlin, the clock goes from 02:00 to 03:00 on 28 March 2027.  A daily job of 02:30 runs at 03:00 on that day.
    """
    schedule = schedule_of("cron 30 2 * * *", zone=BERLIN)

    found = punctual(schedule, ms("2027-03-27 00:00", BERLIN), ms("2027-03-30 00:00", BERLIN))

    assert ["2027-03-27 02:30 +0100", "2027-03-28 03:00 +0200", "2027-03-29 02:30 +0200"] == [
        shown(due_ms, BERLIN) for due_ms in found
    ]


def test_a_time_that_the_clock_repeats_comes_once() -> None:
    """
    In New York, the clock goes from 02:00 to 01:00 on 7 November 2027.  A daily job of 01:30 runs the first time only,
    and an hourly one both times.
    """
    begin_ms, end_ms = ms("2027-11-07 01:00", NEW_YORK), ms("2027-11-07 03:00", NEW_YORK)

    daily = punctual(schedule_of("cron 30 1 * * *", zone=NEW_YORK), begin_ms, end_ms)
    hourly = punctual(schedule_of("cron 30 * * * *", zone=NEW_YORK), begin_ms, end_ms)

    assert ["2027-11-07 01:30 -0400"] == [shown(due_ms, NEW_YORK) for due_ms in daily]
    assert ["2027-11-07 01:30 -0400", "2027-11-07 01:30 -0500", "2027-11-07 02:30 -0500"] == [
        shown(due_ms, NEW_YORK) for due_ms in hourly
    ]


def test_a_job_that_begins_in_a_repeated_hour_does_not_go_back() -> None:
    """
    A job of 01:30 whose record arrives at 01:10, when the clock shows that for the second time, runs the next day.
    """
    second_ms = ms("2027-11-07 01:10", NEW_YORK) + HOUR_MS

    found = schedule_of("cron 30 1 * * *", zone=NEW_YORK).first(second_ms)

    assert "2027-11-08 01:30 -0500" == shown(found, NEW_YORK)


def test_the_leap_day_comes_every_four_years() -> None:
    """2028 and 2032 have a 29 February, and so has 2000 but not 2100."""
    schedule = schedule_of("cron 0 8 29 2 *")

    assert ["2028-02-29 08:00 +0000", "2032-02-29 08:00 +0000"] == [
        shown(due_ms) for due_ms in punctual(schedule, ms("2027-01-01"), ms("2035-01-01"))
    ]
    assert "2104-02-29 08:00 +0000" == shown(schedule.first(ms("2096-03-01")))


def test_the_time_zone_is_utc_by_default() -> None:
    """The time zone of the machine plays no part."""
    assert "2027-07-01 08:00 +0000" == shown(schedule_of("cron 0 8 * * *").first(ms("2027-07-01 00:00")))
    assert "2027-07-01 06:00 +0000" == shown(schedule_of("cron 0 8 * * *", zone=BERLIN).first(ms("2027-07-01 00:00")))


def test_the_first_occurrence_is_not_before_the_begin() -> None:
    """
    That moment is the first occurrence of `every`, and may be one of `cron`.  A millisecond later is too late for it.
    """
    eight_ms = ms("2027-07-01 08:00")
    begins_ms = [eight_ms - 1, eight_ms, eight_ms + 1]

    assert [eight_ms, eight_ms, eight_ms + 24 * HOUR_MS] == [*map(schedule_of("cron 0 8 * * *").first, begins_ms)]
    assert begins_ms == [*map(schedule_of("every 15m").first, begins_ms)]


@given(
    interval_s=st.integers(1, 100_000),
    begin_ms=st.integers(10**12, 2 * 10**12),
    late_ms=st.lists(st.integers(0, 10**6), max_size=30),
    missed=st.sampled_from(["one", "all", "none"]),
)
def test_an_interval_does_not_drift(interval_s: int, begin_ms: int, late_ms: list[int], missed: str) -> None:
    """However late the releases are, each occurrence is a multiple of the interval after the first."""
    schedule = schedule_of(f"every {interval_s}s", missed=missed)
    due_ms = schedule.first(begin_ms)

    for late in late_ms:
        assert due_ms is not None and (due_ms - begin_ms) % (interval_s * 1_000) == 0
        due_ms = schedule.next(due_ms, due_ms + late)


def test_a_schedule_ends_with_the_year_9999() -> None:
    """Later times cannot be told in a record, so the schedule is over."""
    every, cron = schedule_of("every 36525d"), schedule_of("cron 0 0 1 1 *")

    assert 36_525 * 86_400_000 == EVERY_MS_MAX
    assert schedule_of("every 1h").next(DUE_MS_MAX - 2 * HOUR_MS, DUE_MS_MAX) is None
    assert every.next(DUE_MS_MAX - EVERY_MS_MAX + 1, DUE_MS_MAX - EVERY_MS_MAX + 1) is None
    assert DUE_MS_MAX == every.next(DUE_MS_MAX - EVERY_MS_MAX, DUE_MS_MAX - EVERY_MS_MAX)
    for last_ms in (ms("9999-01-01 00:00"), ms("9999-12-31 23:59"), DUE_MS_MAX):
        assert cron.next(last_ms, last_ms) is None
    assert ms("9999-01-01 00:00") == cron.next(ms("9998-01-01"), ms("9998-01-01"))
    for zone in ("Asia/Tokyo", BERLIN, NEW_YORK, "Pacific/Kiritimati"):
        nightly = schedule_of("cron 0 20 * 12 *", zone=zone)
        found = punctual(nightly, ms("9999-12-25", zone), DUE_MS_MAX + 1)
        assert [f"9999-12-{day} 20:00" for day in range(25, 30)] == [shown(due_ms, zone)[:16] for due_ms in found]
        assert all(nightly.first(DUE_MS_MAX - ahead_h * HOUR_MS) is None for ahead_h in range(24))


def test_the_repeated_hour_may_be_the_last() -> None:
    """The second 01:30 of a day comes although no later day of the last year matches."""
    schedule = schedule_of("cron */30 1 * 11 0#1", zone=NEW_YORK)

    found = punctual(schedule, ms("9999-11-07 00:00", NEW_YORK), DUE_MS_MAX)

    assert ["01:00 -0400", "01:30 -0400", "01:00 -0500", "01:30 -0500"] == [shown(it, NEW_YORK)[11:] for it in found]


def test_the_search_for_an_occurrence_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A job of an hour that the clock skips on the only day of the year that matches never fires.  The search looks at the
    first minute of 50 such hours, and not at the other minutes or the years until 9999.
    """
    looked_at: list[datetime] = []
    found = CronDates.__next__
    monkeypatch.setattr(CronDates, "__next__", lambda self: looked_at.append(it := found(self)) or it)

    with pytest.raises(BadSchedule, match="never fires"):
        schedule_of("cron * 2 * 3 0L", zone=BERLIN)

    assert 50 <= len(looked_at) <= 52


def test_a_rare_day_is_found_without_a_look_at_all_days_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A fifth Monday of February comes every 28 years.  Which months have one is found out once for each kind of February,
    for all schedules of that day together.
    """
    looked_at: list[date] = []
    matches = CronDates.match_day
    monkeypatch.setattr(CronDates, "match_day", lambda self, day: looked_at.append(day) or matches(self, day))
    one = schedule_of("cron 17 4 * 2 MON#5")
    found = [one.first(ms("2016-03-01"))]
    looked_at.clear()

    other = schedule_of("cron 18 4 * 2 MON#5")
    found += one.first(ms("2044-03-01")), other.first(ms("2016-03-01"))

    assert ["2044-02-29 04:17", "2072-02-29 04:17", "2044-02-29 04:18"] == [shown(it)[:16] for it in found]
    assert len(looked_at) < 250  # of 72 months, and all of the days in the three that have one


def test_a_month_without_a_matching_day_is_passed_to_its_end() -> None:
    """The first minute of the month that follows counts, from whatever time the search begins."""
    schedule = schedule_of("cron * * */31 * MON")

    assert "2027-11-01 00:00 +0000" == shown(schedule.first(ms("2027-06-15 12:34:56")))
    assert "2027-02-01 00:00 +0000" == shown(schedule.first(ms("2027-01-31 23:59:59")))


def test_the_end_of_a_gap_of_a_day_is_found_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Samoa had no 30 December 2011.  A job of that day runs in the first minute of the 31st, and once, although all of
    its times were skipped.
    """
    schedule = schedule_of("cron 0-59 0-23 30 12 *", zone="Pacific/Apia")
    looked_at = []
    moments = Cron._moments
    monkeypatch.setattr(Cron, "_moments", lambda self, local: looked_at.append(local) or moments(self, local))

    found = punctual(schedule, ms("2011-12-29 00:00", "Pacific/Apia"), ms("2012-12-30 00:01", "Pacific/Apia"))

    assert ["2011-12-31 00:00 +1400", "2012-12-30 00:00 +1400"] == [shown(it, "Pacific/Apia") for it in found]
    assert len(looked_at) < 30


# What happens to occurrences that were missed.

EIGHT_MS = ms("2027-07-01 08:00", BERLIN)
OUTAGE = [(EIGHT_MS - 24 * HOUR_MS, EIGHT_MS - 60_000), (EIGHT_MS + 4 * HOUR_MS + 30 * 60_000, EIGHT_MS + 7 * HOUR_MS)]


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        (None, [(0, 4.5), (5, 5), (6, 6)]),
        ("one", [(0, 4.5), (5, 5), (6, 6)]),
        ("all", [(0, 4.5), (1, 4.5), (2, 4.5), (3, 4.5), (4, 4.5), (5, 5), (6, 6)]),
        ("none", [(5, 5), (6, 6)]),
    ],
)
@pytest.mark.parametrize("text", ["cron 0 * * * *", "every 60m"])
def test_a_broker_is_down_at_the_occurrence(text: str, missed: str | None, expected: list[tuple[float, float]]) -> None:
    """
    An hourly record, and a broker that is down from shortly before 08:00 to 12:30.  Each pair is an occurrence and its
    release, in hours after 08:00.
    """
    schedule = schedule_of(text, missed=missed, zone=BERLIN if text.startswith("cron") else None)

    releases = released_during(schedule, EIGHT_MS, OUTAGE)

    assert expected == [tuple((it - EIGHT_MS) / HOUR_MS for it in release) for release in releases]


@pytest.mark.parametrize(("missed", "is_released"), [("one", True), ("all", True), ("none", False)])
def test_a_daily_job_that_is_hours_late(missed: str, is_released: bool) -> None:
    """With `none`, an occurrence is skipped although the following one is far away."""
    schedule = schedule_of("cron 0 8 * * *", zone=BERLIN, missed=missed)

    assert [(EIGHT_MS, OUTAGE[1][0])] * is_released == released_during(schedule, EIGHT_MS, OUTAGE)


def test_with_none_a_short_delay_is_no_miss() -> None:
    """A failover does not skip an occurrence; a millisecond more than `LATE_MS_MAX`, or the following one, does."""
    daily, frequent = schedule_of("cron 0 8 * * *", missed="none"), schedule_of("every 10s", missed="none")
    due_ms = ms("2027-07-01 08:00")

    assert [False, False, True] == [
        daily.is_missed(due_ms, due_ms + late) for late in (0, LATE_MS_MAX, LATE_MS_MAX + 1)
    ]
    assert [False, True] == [frequent.is_missed(due_ms, due_ms + late) for late in (9_999, 10_000)]
    assert due_ms + 10_000 == frequent.next(due_ms, due_ms + 19_999)
    assert due_ms + 20_000 == frequent.next(due_ms, due_ms + 20_000)
    assert due_ms + 24 * HOUR_MS == daily.next(due_ms, due_ms + LATE_MS_MAX)
    minutely = schedule_of("every 61s", missed="none")
    assert due_ms + 61_000 == minutely.next(due_ms, due_ms + 61_000 + 60_000)
    assert due_ms + 122_000 == minutely.next(due_ms, due_ms + 122_000 + 60_000)


def test_with_none_a_punctual_release_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The host asks before each release: in the minute of its occurrence, or before an interval is over, nothing follows.
    """
    schedules = schedule_of("cron 0 8 * * *", missed="none"), schedule_of("every 10s", missed="none")
    for rule in (Cron, Every):
        monkeypatch.delattr(rule, "occurrences")

    due_ms = ms("2027-07-01 08:00")
    assert not any(schedule.is_missed(due_ms, due_ms + 9_999) for schedule in schedules)
    assert not schedules[0].is_missed(due_ms, due_ms + 59_999)


def test_with_none_an_occurrence_that_was_moved_is_missed_when_the_following_one_is_due() -> None:
    """It was moved to just before the one at 08:01, which comes a second later."""
    schedule, due_ms = schedule_of("cron 1 8 * * *", missed="none"), ms("2027-07-01 08:00") + 59_500

    assert [False, True] == [schedule.is_missed(due_ms, due_ms + late) for late in (499, 500)]


def test_with_none_a_release_of_the_last_minute_is_not_repeated() -> None:
    """The next occurrence is later than the last one, although that one is not too late either."""
    schedule = schedule_of("cron 0 * * * *", missed="none")
    due_ms = ms("2027-07-01 08:00")

    assert due_ms + HOUR_MS == schedule.next(due_ms, due_ms + 1_000)


def test_with_one_an_outage_after_the_release_counts() -> None:
    """
    A leader dies between a punctual release and its NEXT.  The next leader computes from the time of the release, so
    the occurrences since then are released once, late, and not skipped.
    """
    schedule = schedule_of("cron 0 * * * *", missed="one")
    due_ms = ms("2027-07-01 08:00")
    later_ms = due_ms + 5 * HOUR_MS + 1

    following = schedule.next(due_ms, due_ms + 3)

    assert due_ms + HOUR_MS == following
    assert due_ms + 6 * HOUR_MS == schedule.next(due_ms + HOUR_MS, later_ms)


def test_an_occurrence_at_the_time_of_the_release_is_missed() -> None:
    """What is due in the very millisecond of a late release is what this release stands for."""
    due_ms = ms("2027-07-01 08:00")

    assert due_ms + 20_000 == schedule_of("every 10s").next(due_ms, due_ms + 10_000)
    assert due_ms + 10_000 == schedule_of("every 10s").next(due_ms, due_ms + 9_999)


@settings(deadline=None, max_examples=100)
@given(
    text=st.sampled_from(
        ["every 7s", "every 90s", "every 20m", "cron */5 * * * *", "cron 30 1,2,5 * * *", "cron 0 8 * * *"]
    ),
    missed=st.sampled_from(["one", "all", "none"]),
    changes=st.lists(st.integers(1_000, 4 * HOUR_MS), min_size=1, max_size=6),
)
@example(text="every 7s", missed="none", changes=[1_000, 60_001, 10_000])
def test_no_occurrence_is_lost_or_comes_twice(text: str, missed: str, changes: list[int]) -> None:
    """
    A broker is up and down in turns.  With `all`, every occurrence is released.  With `one`, at most one is released
    late for each outage, and none is without a release after it.  With `none`, only those that are late are skipped.
    """
    schedule = schedule_of(text, missed=missed, zone=BERLIN if text.startswith("cron") else None)
    begin_ms = ms("2027-10-30 22:00", BERLIN)
    borders = [begin_ms]
    for duration_ms in changes:
        borders.append(borders[-1] + duration_ms)
    up = [*pairwise(borders)][::2]
    first_ms = schedule.first(begin_ms)
    assert first_ms is not None

    releases = released_during(schedule, first_ms, up)

    occurrences = [*takewhile(lambda due_ms: due_ms < up[-1][1], schedule.rule.occurrences(first_ms, first_ms - 1))]
    dues = [due_ms for due_ms, _ in releases]
    late = [(due_ms, released_ms) for due_ms, released_ms in releases if released_ms > due_ms]
    assert dues == sorted({*dues} & {*occurrences})
    if missed == "all":
        assert occurrences == dues
    elif missed == "one":
        assert len({released_ms for _, released_ms in late}) == len(late)
        assert all(any(due_ms <= released_ms for _, released_ms in releases) for due_ms in occurrences)
        punctual_dues = [due_ms for due_ms in occurrences if any(begin < due_ms < end for begin, end in up)]
        assert {*punctual_dues} <= {*dues}
    else:
        assert all(released_ms - due_ms <= LATE_MS_MAX for due_ms, released_ms in late)
        for due_ms, following in pairwise([*occurrences, 10**15]):
            start_ms = next((max(begin, due_ms) for begin, end in up if due_ms < end), None)
            is_timely = start_ms is not None and start_ms - due_ms <= LATE_MS_MAX and start_ms < following
            assert is_timely == (due_ms in dues)


# Headers.


def test_a_record_without_a_schedule_has_none() -> None:
    """A timer with an id or a delay alone is no schedule."""
    assert parse_schedule([("trace", None), ("tidemill-timer-id", b"a"), ("tidemill-delay", b"5m")]) is None


BAD = [
    (headers("cron 60 * * * *"), "tidemill-schedule='cron 60 * * * *': the field minute"),
    (headers("cron * 24 * * *"), "the field hour"),
    (headers("cron * * 0 * *"), "the field day-of-month"),
    (headers("cron * * * 13 *"), "the field month"),
    (headers("cron * * * * 8"), "the field day-of-week"),
    (headers("cron */0 * * * *"), "the field minute"),
    (headers("cron 5-1 * * * *"), "the field minute"),
    (headers("cron 0 0 30 2 *"), "the field day-of-month is not valid, or no month has such a day: correct it"),
    (headers("cron 0 0 31 4,6,9,11 *"), "no month has such a day"),
    (headers("cron 0 0 */15 * FRI#2"), "never fires in 50 years: correct the days, hours or months"),
    (headers("cron * 2 * 3 0L", ("tidemill-timezone", b"Europe/Berlin")), "never fires in 50 years"),
    (headers("cron 0 30 2 * * *"), "write five fields instead of 6: minute, hour, day of month, month and day of week"),
    (headers("cron 30 2 * *"), "write five fields instead of 4"),
    (headers("cron"), "write five fields instead of 0"),
    (headers("cron @daily"), "write five fields instead of 1"),
    (headers("@daily"), "tidemill-schedule='@daily': write cron and five fields, or every"),
    (headers("CRON 0 0 * * *"), "write cron and five fields"),
    (headers(""), "tidemill-schedule='': write cron and five fields, or every 15m"),
    (headers("  "), "tidemill-schedule='  ': write cron and five fields"),
    (headers("every"), "tidemill-schedule='every': write every and a number with s, m, h or d, from 1s to 36525d"),
    (headers("every 999ms"), "'every 999ms': write every and a number"),
    (headers("every 36526d"), "from 1s to 36525d"),
    (headers("every -1h"), "from 1s to 36525d"),
    (headers("every 15"), "from 1s to 36525d"),
    (headers("every 1h 30m"), "from 1s to 36525d"),
    (headers("\x1c"), "tidemill-schedule='\\x1c': write cron and five fields, or every 15m, in at most 256 printable"),
    (headers("cron 0 0 * * *\x00"), "in at most 256 printable bytes of ASCII"),
    (headers("cron 0 0 * * \u0661"), "in at most 256 printable bytes of ASCII"),
    (headers("cron 0 0 * * " + "1," * 122 + "1"), "in at most 256 printable bytes of ASCII"),
    (
        headers("cron 0 0 * * *", ("tidemill-timezone", b"Mars/Olympus")),
        "tidemill-timezone='Mars/Olympus': no such zone",
    ),
    (
        headers("cron 0 0 * * *", ("tidemill-timezone", b"Europe")),
        "tidemill-timezone='Europe': no such zone: write a name",
    ),
    (headers("cron 0 0 * * *", ("tidemill-timezone", b"../../etc/passwd")), "no such zone"),
    (headers("cron 0 0 * * *", ("tidemill-timezone", b"localtime")), "no such zone"),
    (headers("cron 0 0 * * *", ("tidemill-timezone", b"right/Europe/Berlin")), "no such zone"),
    (headers("cron 0 0 * * *", ("tidemill-timezone", b"x" * 256)), "no such zone"),
    (headers("cron 0 0 * * *", ("tidemill-timezone", b"")), "tidemill-timezone='': write a name of the IANA"),
    (headers("cron 0 0 * * *", ("tidemill-timezone", None)), "tidemill-timezone=null: write a name of the IANA"),
    (
        headers("every 1h", ("tidemill-timezone", b"UTC")),
        "tidemill-timezone='UTC': only a cron schedule has a time zone",
    ),
    (headers("every 1h", ("tidemill-missed", b"two")), "tidemill-missed='two': write one, all or none"),
    (headers("every 1h", ("tidemill-missed", None)), "tidemill-missed=null: write one, all or none"),
    (headers("every 1h", ("tidemill-delay", b"5m")), "tidemill-delay are both there: say with tidemill-deliver-at"),
    (headers("every 1h", ("tidemill-schedule", b"every 1h")), "tidemill-schedule is there 2 times: keep one"),
    (headers("every 1h", ("tidemill-timer-id", b"b")), "tidemill-timer-id is there 2 times: keep one"),
    (headers("every 1h", *[("tidemill-missed", b"all")] * 3), "tidemill-missed is there 3 times"),
    (headers("every 1h", timer_id=None), "tidemill-schedule needs the header tidemill-timer-id"),
    (headers("every 1h", timer_id=""), "tidemill-schedule needs the header tidemill-timer-id"),
    ([("tidemill-timezone", b"UTC"), ("tidemill-timer-id", b"a")], "tidemill-timezone='UTC' without tidemill-schedule"),
    ([("tidemill-missed", b"all")], "tidemill-missed='all' without tidemill-schedule: add it"),
    (
        [("tidemill-timezone", None), ("tidemill-missed", b"all")],
        "tidemill-timezone=null and tidemill-missed='all' without tidemill-schedule: add it, such as every 15m, or "
        "omit tidemill-timezone and tidemill-missed",
    ),
    ([("tidemill-schedule", None), ("tidemill-timer-id", b"a")], "tidemill-schedule=null: write cron"),
]


@pytest.mark.parametrize(("given_headers", "problem"), BAD, ids=[problem for _, problem in BAD])
def test_a_bad_schedule_is_refused(given_headers: list[tuple[str, bytes | None]], problem: str) -> None:
    """The message names the header, its value and what to write instead."""
    with pytest.raises(BadSchedule) as raised:
        parse_schedule(given_headers)

    assert problem in str(raised.value)


@given(
    text=st.one_of(
        st.binary(max_size=300),
        st.lists(st.text("0123456789*/-,#LWMON ", max_size=6), min_size=5, max_size=5).map(
            lambda fields: f"cron {' '.join(fields)}".encode()
        ),
    ),
    zone=st.one_of(st.none(), st.binary(max_size=300), st.text("./abEU", max_size=8).map(str.encode)),
)
@settings(deadline=None, max_examples=300)
def test_no_header_does_harm(text: bytes, zone: bytes | None) -> None:
    """Whatever a producer sends is a schedule or is refused."""
    others = [] if zone is None else [("tidemill-timezone", zone)]
    try:
        found = parse_schedule([("tidemill-schedule", text), ("tidemill-timer-id", b"a"), *others])
    except BadSchedule as problem:
        assert str(problem).startswith("tidemill-")
        return

    assert found is not None
    last_ms = 1_800_000_000_000
    first = [*islice(found.rule.occurrences(last_ms, last_ms), 3)]
    assert first == sorted({*first}) and all(due_ms > last_ms for due_ms in first)


def test_names_and_blanks_are_as_in_cron() -> None:
    """Names may be in lower case, and several blanks or tabs may lie between the fields."""
    one, other = schedule_of("cron 0 8 * jan mon-fri"), schedule_of("cron  0\t8 *  1 1-5 ")
    begin_ms, end_ms = ms("2027-01-01"), ms("2027-03-01")

    assert punctual(one, begin_ms, end_ms) == punctual(other, begin_ms, end_ms) != []


def test_values_may_have_256_bytes() -> None:
    """The bound is inclusive."""
    text = "cron 0 0 * * " + "1," * 121 + "1"

    assert 256 == len(text)
    assert datetime(2027, 1, 4, tzinfo=UTC).timestamp() * 1_000 == schedule_of(text).first(ms("2027-01-01"))


def test_libraries_are_imported_when_they_are_used() -> None:
    """
    A broker without schedules loads neither cronsim nor the code of time zones, and one with intervals only does not
    either.
    """
    code = (
        "import sys, tidemill.app.start, tidemill.timer.schedule as s;"
        "s.parse_schedule([('tidemill-schedule', b'every 1h'), ('tidemill-timer-id', b'a')]);"
        "print([name for name in ('cronsim', 'zoneinfo') if name in sys.modules]);"
        "s.parse_schedule([('tidemill-schedule', b'cron 0 0 * * *'), ('tidemill-timer-id', b'a')]);"
        "print([name for name in ('cronsim', 'zoneinfo') if name in sys.modules]);"
    )

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n['cronsim']\n" == finished.stdout


MINUTE_MS, DAY_MS = 60_000, 86_400_000
NOW = ms("2027-11-27")


@pytest.mark.parametrize(
    ("text", "interval_ms"),
    [("every 1s", 1_000), ("every 15m", 15 * MINUTE_MS), ("every 7d", 7 * DAY_MS), ("cron * * * * *", MINUTE_MS)],
)
def test_the_begin_of_a_schedule_that_makes_up_for_all_is_bounded(text: str, interval_ms: int) -> None:
    """The occurrence at the begin and the one at the present count."""
    schedule, first = schedule_of(text, missed="all"), NOW - (MISSED_MAX - 1) * interval_ms

    schedule.check_begin(first, NOW)
    schedule.check_move(first, NOW)
    for check in (schedule.check_begin, schedule.check_move):
        with pytest.raises(BadSchedule, match=r"tidemill-missed=all: up to 10001 .* at most 10000 are delivered late"):
            check(first, NOW + interval_ms)


@pytest.mark.parametrize("text", ["cron 30 8 * * *", "cron 0 0 L * *", "cron 5 4 * * MON-FRI"])
def test_a_daily_job_may_begin_27_years_ago(text: str) -> None:
    schedule = schedule_of(text, zone=BERLIN, missed="all")

    schedule.check_begin(NOW - 27 * 365 * DAY_MS, NOW)
    with pytest.raises(BadSchedule, match="write tidemill-missed=one, or a later tidemill-deliver-at"):
        schedule.check_begin(NOW - 28 * 365 * DAY_MS, NOW)


@pytest.mark.parametrize("missed", [None, "one", "none"])
def test_other_schedules_may_begin_at_any_time(missed: str | None) -> None:
    schedule_of("every 1s", missed=missed).check_begin(0, NOW)


def test_a_time_to_come_misses_nothing() -> None:
    for text in ("every 1s", "cron * * * * *"):
        schedule = schedule_of(text, missed="all")

        schedule.check_begin(DUE_MS_MAX, NOW)
        assert (0, 1) == tuple(schedule.rule.most_between(NOW + 1, it) for it in (NOW, NOW + 1))


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize(("zone", "day"), [(UTC_NAME, "2027-06-01"), (BERLIN, "2027-03-20"), (SANTIAGO, "2027-08-30")])
def test_no_more_occurrences_are_missed_than_are_counted(text: str, zone: str, day: str) -> None:
    """In ten days, of which some have clocks that are put forward."""
    schedule, begin = schedule_of(f"cron {text}", zone=zone), ms(f"{day} 07:23", zone)

    for length_ms in (1, HOUR_MS, DAY_MS - 1, DAY_MS, 10 * DAY_MS + HOUR_MS):
        found = sum(1 for _ in takewhile(lambda it: it <= begin + length_ms, schedule.rule.occurrences(0, begin - 1)))  # noqa: B023
        assert found <= schedule.rule.most_between(begin, begin + length_ms)


def test_a_schedule_is_not_moved_to_where_it_would_be_skipped() -> None:
    schedule = schedule_of("every 1h", missed="none")

    schedule.check_move(NOW - LATE_MS_MAX, NOW)
    with pytest.raises(BadSchedule, match=r"would be skipped.*with a delay of 0 it comes at once"):
        schedule.check_move(NOW - LATE_MS_MAX - 1, NOW)

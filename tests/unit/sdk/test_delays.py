"""The arguments that say when a record is due and when it recurs, and the headers that they become."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tidemill.sdk.delays import Due, timer_headers
from tidemill.timer import due_time, schedule


@pytest.mark.parametrize(
    ("delay", "value"),
    [("90s", b"90000"), (1.5, b"1500"), (0, b"0"), (timedelta(days=400), b"34560000000"), (0.0001, b"1")],
)
def test_a_delay_is_in_milliseconds(delay: Any, value: bytes) -> None:
    """It is rounded up, so that no record is early; it may be longer than other durations."""
    assert [("tidemill-delay", value)] == [*timer_headers(Due(delay))]


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (datetime(2027, 1, 1, tzinfo=UTC), b"1798761600000"),
        (datetime(2027, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), b"1798761600000"),
        (datetime(2027, 1, 1, 0, 0, 0, 1, tzinfo=UTC), b"1798761600001"),
        (datetime(1973, 3, 3, 9, 46, 40, tzinfo=UTC), b"100000000000"),
        (datetime.max.replace(tzinfo=UTC), b"253402300799999"),
    ],
)
def test_a_time_is_in_milliseconds_since_the_epoch(at: datetime, value: bytes) -> None:
    """It is rounded up."""
    headers = [*timer_headers(Due(at=at))]

    assert [("tidemill-deliver-at", value)] == headers
    assert int(value) <= due_time.due_ms(headers, 0)


def test_an_id_goes_with_a_time() -> None:
    """An id is text or bytes."""
    headers = [[*timer_headers(Due("1s", timer_id=it))] for it in ("ä", b"\xff")]

    assert [[("tidemill-delay", b"1000"), ("tidemill-timer-id", it)] for it in ("ä".encode(), b"\xff")] == headers


@pytest.mark.parametrize(
    ("arguments", "problem", "says"),
    [
        (("soon", None, None), ValueError, "delay='soon': use a duration"),
        ((-1, None, None), ValueError, "delay=-1"),
        (("5m", datetime(2027, 1, 1, tzinfo=UTC), None), ValueError, "give one of them"),
        ((None, datetime(2027, 1, 1), None), ValueError, "give its time zone, such as tzinfo=datetime.UTC"),  # noqa: DTZ001
        ((None, "2027-01-01", None), TypeError, "at='2027-01-01': use a datetime"),
        ((None, None, ""), ValueError, "timer_id='': use 1 to 256 bytes"),
        ((None, None, "ä" * 129), ValueError, "use 1 to 256 bytes"),
        ((None, None, 7), TypeError, "timer_id=7: use text or bytes"),
        ((None, None, None, "every 1m"), ValueError, "schedule='every 1m' without timer_id"),
        ((None, None, "a", 60), TypeError, "schedule=60: use text"),
        ((None, None, "a", "every 1m", None, "two"), ValueError, "missed='two': use one, all or none"),
        (("5m", None, "a", "every 1m"), ValueError, "schedule='every 1m' and delay='5m': say with `at`"),
        ((None, None, "a", None, "UTC", "all"), ValueError, "timezone='UTC' and missed='all' without schedule"),
    ],
)
def test_a_bad_argument_is_named(arguments: Any, problem: type[Exception], says: str) -> None:
    """With its value, and what to use instead."""
    with pytest.raises(problem) as refused:
        [*timer_headers(Due(*arguments))]

    assert says in str(refused.value)


def test_an_id_may_have_as_many_bytes_as_brokers_accept() -> None:
    """The longest one is accepted, and so is the shortest."""
    headers = [[*timer_headers(Due(timer_id=it))] for it in ("x", "ä" * 128)]

    assert [1, 256] == [len(value) for ((_, value),) in headers]


@pytest.mark.parametrize(
    "at",
    [
        datetime(1960, 1, 1, 8, tzinfo=UTC),
        datetime(1970, 1, 1, 8, tzinfo=UTC),
        datetime(1973, 1, 1, 8, 0, 0, 1, tzinfo=UTC),
        datetime(1973, 3, 3, 9, 46, 39, 999_000, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(2027, 1, 1, 8, tzinfo=UTC),
    ],
)
@pytest.mark.parametrize("schedule", [None, "every 1d"])
def test_a_record_has_the_moment_itself(at: datetime, schedule: str | None) -> None:
    """However long ago it was: all occurrences of `every` are multiples of the interval away from it."""
    headers = [*timer_headers(Due(at=at, timer_id="a", schedule=schedule))]

    exact_us = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert max(-(-exact_us // 1_000), due_time.YEAR_1_MS) == due_time.begin_ms(headers, 0)


def test_a_schedule_becomes_headers_that_brokers_read() -> None:
    """The first occurrence is at `at`."""
    at = datetime(2027, 1, 1, tzinfo=UTC)
    alone = [*timer_headers(Due(timer_id="a", schedule="every 15m"))]
    headers = [*timer_headers(Due(None, at, "a", "cron 30 8 * * MON-FRI", "Europe/Berlin", "all"))]
    read = schedule.parse_schedule(headers)

    assert [("tidemill-timer-id", b"a"), ("tidemill-schedule", b"every 15m")] == alone
    assert read is not None and schedule.Missed.ALL is read.missed
    assert datetime(2027, 1, 1, 7, 30, tzinfo=UTC).timestamp() * 1_000 == read.first(due_time.due_ms(headers, 0))

"""When a record is due, by its headers."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.timer.due_time import DELAY, DELIVER_AT, DUE_MS_MAX, BadDueTime, due_ms
from tidemill.timer.timer_headers import ARRIVAL, TIMESTAMP

STAMP = 1_800_000_000_000
DAY_MS = 86_400_000


def at(text: str) -> int:
    return due_ms([(DELIVER_AT, text.encode())], STAMP)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1800000000123", 1_800_000_000_123),
        ("100000000000", 10**11),
        (str(DUE_MS_MAX), DUE_MS_MAX),
        ("2027-01-31T08:00:00Z", 1_801_382_400_000),
        ("2027-01-31t08:00:00z", 1_801_382_400_000),
        ("2027-01-31 08:00:00Z", 1_801_382_400_000),
        ("2027-01-31T09:30:00+01:30", 1_801_382_400_000),
        ("2027-01-31T00:00:00-08:00", 1_801_382_400_000),
        ("2027-01-31T08:00:00.5Z", 1_801_382_400_500),
        ("2027-01-31T08:00:00.0001Z", 1_801_382_400_001),
        ("2027-01-31T08:00:00.999999999Z", 1_801_382_401_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2016-12-31T23:59:60.9Z", 1_483_228_800_000),
        ("9999-12-31T23:59:59.999Z", DUE_MS_MAX),
        ("1972-01-01T00:00:00Z", 63_072_000_000),
        ("1969-12-31T23:59:59.9999Z", 0),
        ("1970-01-01T00:00:00+00:01", 0),
        ("1960-01-01T00:00:00Z", 0),
        ("0001-01-01T00:00:00Z", 0),
        ("-1", 0),
        ("-315619200000", 0),
        ("-000000000000000001", 0),
        ("-62135596800000", 0),
        ("0", 0),
        ("-0", 0),
    ],
)
def test_a_moment_is_milliseconds_or_a_time_with_its_zone(text: str, expected: int) -> None:
    assert expected == at(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("0", 0), ("1500", 1_500), ("500ms", 500), ("90s", 90_000), ("5m", 300_000), ("2d", 2 * DAY_MS)],
)
def test_a_delay_counts_from_the_append_time(text: str, expected_ms: int) -> None:
    assert STAMP + expected_ms == due_ms([("other", b"x"), (DELAY, text.encode())], STAMP)


def test_a_record_without_these_headers_is_due_at_once() -> None:
    assert STAMP == due_ms([("other", None)], STAMP)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b" ",
        b"-",
        b"--1",
        b"-1.5",
        b"-62135596800001",
        b"-1000000000000000000",
        b"+1800000000000",
        b" 1800000000000",
        b"1800000000",
        b"1",
        b"1800000000000.5",
        b"1800000000000000000000",
        b"9" * 65,
        "\u0661\u0668\u0660\u0660".encode(),
        b"2027-01-31",
        b"2027-01-31T08:00:00",
        b"2027-02-30T08:00:00Z",
        b"2027-01-31T24:00:00Z",
        b"2027-01-31T08:00:61Z",
        b"2027-01-31T08:00:00+24:00",
        b"2027-01-31T08:00:00.Z",
        b"0000-01-01T00:00:00Z",
        b"0001-01-01T00:00:00+00:01",
        b"9999-12-31T23:59:59.9999Z",
        b"soon",
    ],
)
def test_a_bad_moment_is_refused_by_name(value: bytes | None) -> None:
    with pytest.raises(BadDueTime, match=DELIVER_AT):
        due_ms([(DELIVER_AT, value)], STAMP)


@pytest.mark.parametrize("written_ms", [0, 1, 63_072_000_000, 10**11 - 1, 10**11, DUE_MS_MAX])
def test_what_a_broker_has_written_is_accepted_when_it_is_passed_on(written_ms: int) -> None:
    """Such a record was due before 1973, when its text was a time of RFC 3339, or by a clock that was wrong."""
    delivered = [(DELIVER_AT, b"%d" % written_ms), (TIMESTAMP, b"1800000000000"), (ARRIVAL, b"7")]

    assert written_ms == due_ms(delivered, STAMP)


@pytest.mark.parametrize("value", [None, b"", b"-1", b"1.5s", b"5 m", b"1w", b"99999999999d", b"9" * 19])
def test_a_bad_delay_is_refused_by_name(value: bytes | None) -> None:
    with pytest.raises(BadDueTime, match=DELAY):
        due_ms([(DELAY, value)], STAMP)


@pytest.mark.parametrize("names", [(DELAY, DELAY), (DELAY, DELIVER_AT), (DELIVER_AT, DELIVER_AT)])
def test_two_headers_are_refused(names: tuple[str, str]) -> None:
    with pytest.raises(BadDueTime, match="keep one"):
        due_ms([(name, b"1800000000000") for name in names], STAMP)


def test_the_longest_delay_is_a_setting() -> None:
    assert STAMP + DAY_MS == due_ms([(DELAY, b"1d")], STAMP, DAY_MS)
    assert 10**11 == due_ms([(DELIVER_AT, b"100000000000")], STAMP, 0)
    with pytest.raises(BadDueTime, match=f"tidemill.max.delay.ms={DAY_MS}"):
        due_ms([(DELAY, b"86400001")], STAMP, DAY_MS)


@given(st.datetimes(min_value=datetime(1974, 1, 1), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_moment_is_never_before_the_time_that_is_written(moment: datetime) -> None:
    exact_us = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    due = at(moment.isoformat().replace("+00:00", "Z"))

    assert 0 <= due * 1_000 - exact_us < 1_000


@given(st.binary(max_size=80))
def test_any_bytes_are_a_time_or_refused(value: bytes) -> None:
    for name in (DELIVER_AT, DELAY):
        try:
            found = due_ms([(name, value)], STAMP)
        except BadDueTime as refused:
            assert name in str(refused)
        else:
            assert 0 <= found <= DUE_MS_MAX


def test_many_times_are_counted_and_not_listed() -> None:
    """A record may have ten thousand headers, and the message is in the response."""
    with pytest.raises(BadDueTime, match=r"^the header tidemill-delay is there 10000 times: keep one$"):
        due_ms([(DELAY, b"1")] * 10_000, STAMP)
    with pytest.raises(
        BadDueTime, match=r"^the headers tidemill-delay and tidemill-deliver-at are both there: keep one$"
    ):
        due_ms([(DELAY, b"1"), (DELIVER_AT, b"1"), (DELAY, b"1")], STAMP)

"""The CLI says what is wrong with the headers of a record that a timer topic has refused."""

import pytest

from tidemill.timer.timer_problem import timer_problem

DELAY = ("tidemill-delay", b"5m")
NAMED = ("tidemill-timer-id", b"a")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("tidemill-delay", b"soon")], "tidemill-delay='soon': write whole milliseconds"),
        ([DELAY, ("tidemill-deliver-at", b"2030-01-01T00:00:00Z")], "are both there: keep one"),
        ([("tidemill-cancel", b"")], "tidemill-cancel without tidemill-timer-id"),
        ([NAMED, ("tidemill-schedule", b"cron 1 1 1")], "write five fields instead of 3"),
        (
            [NAMED, ("tidemill-schedule", b"cron 0 0 * * *"), ("tidemill-deliver-at", b"253402300799999")],
            "tidemill-schedule='cron 0 0 * * *': the first occurrence is later than the year 9999 allows",
        ),
        ([("a", None)] * 10_001, "it has 10001 headers: send at most 10000"),
    ],
)
def test_each_kind_of_header_is_checked(headers: list[tuple[str, bytes | None]], expected: str) -> None:
    assert expected in str(timer_problem(headers, 0))


def test_headers_without_a_problem_have_no_reason() -> None:
    """A record may have been refused because another one of its batch was, or by a topic of another kind."""
    assert (None, None) == (
        timer_problem([], 0),
        timer_problem([DELAY, NAMED, *[("tidemill-other", None)] * 9_998], 0),
    )


def test_a_schedule_that_has_missed_too_much_is_named() -> None:
    """Whether it has depends on the time at which the record was sent."""
    ticks = [NAMED, ("tidemill-schedule", b"every 1s"), ("tidemill-missed", b"all")]
    headers = [*ticks, ("tidemill-deliver-at", b"1800000000000")]

    assert "10001 occurrences" in str(timer_problem(headers, 1_800_010_000_000))
    assert timer_problem(headers, 1_800_009_999_999) is None
    assert timer_problem(headers, 0) is None

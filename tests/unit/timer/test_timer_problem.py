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
        ([("a", None)] * 10_001, "it has 10001 headers: send at most 10000"),
    ],
)
def test_each_kind_of_header_is_checked(headers: list[tuple[str, bytes | None]], expected: str) -> None:
    assert expected in str(timer_problem(headers))


def test_headers_without_a_problem_have_no_reason() -> None:
    """A record may have been refused because another one of its batch was, or by a topic of another kind."""
    assert (None, None) == (timer_problem([]), timer_problem([DELAY, NAMED, *[("tidemill-other", None)] * 9_998]))

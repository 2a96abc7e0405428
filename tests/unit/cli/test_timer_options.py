"""Options of `tidemill timers`: times, shifts and arrivals."""

import time

import pytest

from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.timer_options import arrival_of, shift_ms, time_ms


def test_a_time_is_absolute_or_from_now() -> None:
    assert 1_800_000_000_000 == time_ms("2027-01-15T09:00:00+01:00", option="--at")
    assert 1_800_000_000_000 == time_ms("1800000000000", option="--at")
    assert -57_600_000 == time_ms("1969-12-31T08:00:00Z", option="--at"), "schedules count from there"
    assert None is time_ms(None, option="--at")
    before = time.time_ns() // 1_000_000
    found = time_ms("10m", option="--at")
    assert found is not None
    assert 0 <= found - before - 600_000 < 10_000


def test_a_shift_may_be_negative() -> None:
    assert [300_000, 300_000, -7_200_000] == [shift_ms(it, option="--shift") for it in ("5m", "+5m", "-2h")]


def test_an_arrival_has_a_partition() -> None:
    assert (3, 42) == arrival_of("3:42")


@pytest.mark.parametrize(
    ("parse", "text", "problem"),
    [
        (lambda text: time_ms(text, option="--at"), "tomorrow", "--at 'tomorrow': use a time such as"),
        (lambda text: time_ms(text, option="--at"), "2027-01-15", "--at '2027-01-15'"),
        (lambda text: time_ms(text, option="--at"), "1800000000", "--at '1800000000'"),
        (lambda text: shift_ms(text, option="--shift"), "5", "--shift '5': use a number and a unit"),
        (lambda text: shift_ms(text, option="--shift"), "--5m", "--shift '--5m'"),
        (lambda text: shift_ms(text, option="--shift"), "", "--shift ''"),
        (lambda text: time_ms(text, option="--at"), "2932897d", "--at 2932897d: at most 2932896d"),
        (lambda text: time_ms(text, option="--at"), "999999999999d", "--at 999999999999d: at most"),
        (lambda text: shift_ms(text, option="--shift"), "999999999999d", "--shift 999999999999d: at most"),
        (lambda text: shift_ms(text, option="--shift"), "-2932897d", "--shift -2932897d: at most 2932896d"),
        (arrival_of, "42", "--arrival '42': use PARTITION:NUMBER"),
        (arrival_of, "a:1", "--arrival 'a:1'"),
        (arrival_of, "1:", "--arrival '1:'"),
    ],
)
def test_an_option_that_cannot_be_one_is_a_usage_error(parse, text: str, problem: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Failed) as failed:
        parse(text)

    assert ExitCode.USAGE == failed.value.exit_code
    assert failed.value.message.startswith(problem)

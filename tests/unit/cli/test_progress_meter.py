"""Rates, lag and remaining time of a phase."""

import pytest

from tidemill.cli.progress_meter import SAMPLES_MAX, ProgressMeter


def test_a_phase_with_a_known_end_has_a_lag_and_a_remaining_time() -> None:
    """
    The lag is the part of the total that remains, and the remaining time follows from the rate.
    """
    meter = ProgressMeter("reading", 1_000, now=10.0)
    meter.advance(200, 2 << 20, None, now=12.0)

    assert "200 of 1,000 records, 100 records/s, 1.0 MiB/s, lag 800, 8 s left" == meter.text(now=12.0)
    assert {
        "event": "progress",
        "phase": "reading",
        "records": 200,
        "total_records": 1_000,
        "bytes": 2 << 20,
        "records_per_s": 100,
        "bytes_per_s": 1 << 20,
        "lag": 800,
        "seconds_left": 8.0,
    } == meter.to_json(now=12.0)


def test_a_reported_lag_goes_before_the_total() -> None:
    """
    A lag that the source reports takes precedence over the total, because the source may grow during the phase.
    """
    meter = ProgressMeter("reading", 100, now=0.0)
    meter.advance(100, 0, 50, now=1.0)

    assert (50, 0.5) == (meter.lag, meter.seconds_left(now=1.0))


def test_a_phase_without_an_end_has_no_remaining_time() -> None:
    """
    Without a total and a lag, only counts and rates are shown.
    """
    meter = ProgressMeter("reading", None, now=0.0)
    meter.advance(10, 0, None, now=2.0)

    assert ("10 records, 5 records/s", None) == (meter.text(now=2.0), meter.to_json(now=2.0)["seconds_left"])


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    """
    The rate covers the last half minute, so a source that has become slower is shown with its current rate.
    """
    meter = ProgressMeter("reading", None, now=0.0)
    meter.advance(1_000_000, 0, None, now=1.0)
    for second in range(2, 70):
        meter.advance(10, 0, None, now=float(second))

    records_per_s, _ = meter.rates(now=70.0)
    assert records_per_s == pytest.approx(10, rel=0.1)


def test_samples_are_bounded() -> None:
    """
    A phase that reports often keeps a bounded number of samples.
    """
    meter = ProgressMeter("reading", None, now=0.0)
    for number in range(10 * SAMPLES_MAX):
        meter.advance(1, 0, None, now=number / 1_000)

    assert meter.rates(now=10 * SAMPLES_MAX / 1_000)[0] == pytest.approx(1_000, rel=0.1)


@pytest.mark.parametrize(("lag", "left"), [(59, "59 s left"), (185, "3:05 left"), (7_385, "2:03:05 left")])
def test_a_remaining_time_is_readable(lag: int, left: str) -> None:
    """
    A long time is shown in minutes and hours.
    """
    meter = ProgressMeter("reading", None, now=0.0)
    meter.advance(1, 0, lag, now=1.0)

    assert meter.text(now=1.0).endswith(left)

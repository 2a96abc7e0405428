"""Numbers, sizes and times in human-readable format."""

import pytest

from tidemill.console import formats
from tidemill.console.cluster_view import Setting


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(None, "–"), (0, "0 B"), (1_270_000, "1.21 MiB")],
)
def test_a_size_that_is_not_known_is_a_dash(size_bytes: int | None, text: str) -> None:
    assert text == formats.size(size_bytes)


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(None, "–"), (0, "0"), (0.313, "0.31"), (12.34, "12.3"), (999.6, "1.00 k"), (12_340, "12.3 k"), (2.5e6, "2.50 M")],
)
def test_rates_have_three_digits(per_second: float | None, text: str) -> None:
    """
    Rates are shown in units based on 1,000.
    """
    assert text == formats.rate(per_second)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (None, "–"),
        (-5, "0 seconds"),
        (1_999, "1 second"),
        (7_199_999, "1 hour"),
        (4 * 86_400_000, "4 days"),
    ],
)
def test_ages_are_in_their_largest_unit(duration_ms: int | None, text: str) -> None:
    """
    An age is rounded down.  A record whose producer's clock is ahead is not younger than now.
    """
    assert text == formats.age(duration_ms)


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (None, "–"),
        (0, "1970-01-01 00:00:00.000"),
        (1_700_000_000_123, "2023-11-14 22:13:20.123"),
        (10**18, f"{10**18}"),
    ],
)
def test_moments_are_utc(timestamp_ms: int | None, text: str) -> None:
    """
    A timestamp is shown in UTC, or as a number if no calendar date corresponds to it, because producers may set any
    value.
    """
    assert text == formats.moment(timestamp_ms)


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(None, "–"), (7, "7 ms"), (0.5, "0.50 ms"), (25.66, "25.7 ms"), (2_000, "2.0 s")]
)
def test_durations(duration_ms: float | None, text: str) -> None:
    """
    Milliseconds are shown without decimals if their number is whole.
    """
    assert text == formats.milliseconds(duration_ms)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("retention.ms", "604800000", "7 days"),
        ("segment.ms", "3600000", "1 hour"),
        ("file.delete.delay.ms", "90000", "1.5 minutes"),
        ("retention.ms", "-1", ""),
        ("flush.ms", "500", ""),
        ("segment.bytes", "1073741824", "1.00 GiB"),
        ("min.insync.replicas", "2000", ""),
        ("retention.ms", None, ""),
    ],
)
def test_settings_in_words(key: str, value: str | None, text: str) -> None:
    """
    A setting in milliseconds or bytes is also given in words if its number is large, so that a person can check it.
    """
    assert text == formats.meant(Setting(key=key, value=value, source="this topic", documentation=""))

"""Numbers, sizes and times in a human-readable format."""

import pytest

from tidemill.spark.pipelines.stats import readable


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (950, "950"),
        (0.25, "0.25"),
        (999.9, "1.00 k"),
        (12_345, "12.3 k"),
        (1_200_000, "1.20 M"),
        (3e9, "3.00 G"),
    ],
)
def test_a_short_count_has_three_digits(number: float, text: str) -> None:
    """
    A short count has three significant digits and a unit.
    """
    assert text == plain(readable.short_count(number))


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (17, "17 B"), (301.5, "302 B"), (4.97, "4.97 B"), (1_000, "0.98 KiB"), (1 << 20, "1.00 MiB")],
)
def test_a_size_has_three_digits(size: float, text: str) -> None:
    """
    A size has three significant digits and a unit that is a power of 1,024 bytes.
    """
    assert text == plain(readable.size(size))


@pytest.mark.parametrize(
    ("number", "is_size", "text"),
    [
        (0, False, "0"),
        (50_000, False, "50 k"),
        (2.5e6, False, "2.5 M"),
        (1_024, True, "1 KiB"),
        (1.5 * 2**20, True, "1.5 MiB"),
    ],
)
def test_a_tick_has_no_idle_digits(number: float, is_size: bool, text: str) -> None:
    """
    The label of a tick has no unnecessary digits.
    """
    assert text == plain(readable.tick(number, is_size=is_size))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 seconds"), (1, "1 second"), (90, "1.5 minutes"), (3_600, "1 hour"), (400 * 86_400, "1.1 years")],
)
def test_a_span_has_its_largest_unit(seconds: float, text: str) -> None:
    """
    A duration is shown in the largest unit that fits.
    """
    assert text == readable.span(seconds)


def test_a_moment_is_in_utc() -> None:
    """
    Times are shown in UTC.  A time that no calendar can represent is shown as a number, because producers may set any
    timestamp.
    """
    assert "1 Jan 2013 10:00:00 UTC" == readable.moment(1_357_034_400.9)
    assert "9000000000000000 seconds since 1970" == readable.moment(9e15)


@pytest.mark.parametrize(("per_second", "unit"), [(5, "second"), (0.5, "minute"), (0.01, "hour"), (1e-9, "day")])
def test_a_rate_has_a_unit_in_which_it_is_at_least_one(per_second: float, unit: str) -> None:
    """
    A rate below 1 per second is shown per minute, hour or day.
    """
    assert unit == readable.rate_unit(per_second)[1]


def test_small_shares_are_told_apart() -> None:
    """
    A percentage below 10 % is shown with one digit after the decimal point.
    """
    shares = [readable.percent(*it) for it in ((3, 1_000), (12, 100), (0, 5), (0, 0))]

    assert ["0.3 %", "12 %", "0 %", "0 %"] == [plain(share) for share in shares]

"""Sizes of data as text."""

import pytest

from tidemill.model.data_size import size_text, three_digits


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (4.97, "4.97 B"),
        (999, "999 B"),
        (1_000, "0.98 KiB"),
        (1 << 10, "1.00 KiB"),
        (1_270_000, "1.21 MiB"),
        (13_314_398_618, "12.4 GiB"),
        (1 << 40, "1.00 TiB"),
        (1 << 61, "2048 PiB"),
    ],
)
def test_a_size_has_three_digits_and_the_largest_unit_that_fits(size: float, text: str) -> None:
    """A unit is 1,024 of the one before; it begins at 1,000, so that there are no four digits before PiB, the last."""
    assert text == size_text(size)


def test_a_number_below_a_thousand_has_three_digits() -> None:
    assert ["0.31", "9.99", "12.3", "100", "950"] == [three_digits(it) for it in (0.313, 9.99, 12.34, 100, 950.4)]

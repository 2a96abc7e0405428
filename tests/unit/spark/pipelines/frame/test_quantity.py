"""Parsing and formatting of sizes and durations."""

from datetime import timedelta

import pytest

from tidemill.spark.pipelines.frame.quantity import duration_text, parse_duration, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("512b", 512), ("64k", 64 << 10), ("64KiB", 64 << 10), ("128MiB", 128 << 20), ("1 gb", 1 << 30)],
)
def test_a_size_has_binary_units(text: str, size: int) -> None:
    """
    Every unit of a size is a power of 1024, however it is written: `64k` is the same as `64KiB`.
    """
    assert size == parse_size(text)


@pytest.mark.parametrize("text", ["", "0", "0MiB", "1.5m", "-1", "1 mib x", "m", "1ib"])
def test_other_text_is_no_size(text: str) -> None:
    """
    Text that is not a size is refused, and the error gives an example of a size.
    """
    with pytest.raises(ValueError, match="128MiB"):
        parse_size(text)


@pytest.mark.parametrize(("size", "text"), [(1, "1"), (1536, "1536"), (64 << 10, "64KiB"), (3 << 40, "3TiB")])
def test_the_text_of_a_size_is_parsed_back(size: int, text: str) -> None:
    """
    A size is formatted in the largest unit that divides it, and the text is parsed to the same size.
    """
    assert (text, size) == (size_text(size), parse_size(text))


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("90s", timedelta(seconds=90)),
        ("10m", timedelta(minutes=10)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        ("0s", timedelta()),
    ],
)
def test_the_text_of_a_duration_is_parsed_back(text: str, duration: timedelta) -> None:
    """
    A duration is formatted in the largest unit that divides it, and the text is parsed to the same duration.
    """
    assert (duration, text) == (parse_duration(text), duration_text(duration))


@pytest.mark.parametrize("text", ["", "10", "m", "1.5h", "-1s", "10 weeks"])
def test_other_text_is_no_duration(text: str) -> None:
    """
    Text that is not a duration is refused with examples.  A number without a unit is refused, too, because the unit is
    unknown.
    """
    with pytest.raises(ValueError, match="10m"):
        parse_duration(text)

"""Keys, values and headers in the broker's JSON."""

from datetime import UTC, datetime

from tidemill.sdk.json_text import bytes_of, headers_of, time_of


def test_text_and_base64_become_bytes() -> None:
    """
    The broker sends base64 for what is not UTF-8, or has control characters.
    """
    assert [None, "ä".encode(), b"\x00\xff"] == [bytes_of(it) for it in (None, "ä", {"base64": "AP8="})]


def test_names_of_headers_are_text() -> None:
    """
    A name with control characters is base64, like a value.
    """
    assert (("a", b"b"), ("\x00", None)) == headers_of([("a", "b"), ({"base64": "AA=="}, None)])


def test_a_timestamp_that_is_no_date_keeps_no_message_back() -> None:
    """
    A producer that writes microseconds sets a year beyond 9999, if the topic permits it.
    """
    last = datetime.max.replace(tzinfo=UTC)

    assert None is time_of(None)
    assert datetime(2026, 11, 27, 13, 16, 3, 335_000, UTC) == time_of(1_795_785_363_335)
    assert last.replace(microsecond=999_000) == time_of(253_402_300_799_999)
    assert [last, last] == [time_of(it) for it in (253_402_300_800_000, (1 << 63) - 1)]

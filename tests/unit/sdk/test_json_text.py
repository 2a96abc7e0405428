"""Keys, values and headers in the broker's JSON."""

from tidemill.sdk.json_text import bytes_of, headers_of


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

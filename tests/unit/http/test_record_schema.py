"""Keys, values and headers in JSON: text or base64."""

import sys

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tidemill.batches.records import Record
from tidemill.http.v1.record_schema import (
    HEADER_MEMORY,
    RECORD_MEMORY,
    WIDE_BYTES_MAX,
    Base64,
    Text,
    headers_of,
    size_of_record,
    text_of,
)


def test_text_is_text_and_the_rest_is_base64() -> None:
    """
    Tab, newline and return are text.  Other control characters are not: JSON escapes each with six bytes.
    """
    assert "a\tb\r\n\x7f ä" == text_of("a\tb\r\n\x7f ä".encode())
    assert "" == text_of(b"")
    assert text_of(None) is None
    assert Base64(b"\xff") == text_of(b"\xff")
    for code in {*range(32)} - {9, 10, 13}:
        assert isinstance(text_of(bytes([97, code])), Base64), code


def test_a_long_text_is_ascii() -> None:
    """
    One character of four bytes makes Python take four bytes for each of the others.
    """
    plain, wide = b"a" * (WIDE_BYTES_MAX - 4), "😀".encode()

    assert isinstance(text_of(plain + wide), str)
    assert Base64(plain + b"a" + wide) == text_of(plain + b"a" + wide)
    assert isinstance(text_of(plain * 2), str)
    assert 4 * len(plain) < size_of_record(None, text_of(plain + wide), []) < 5 * len(plain)


def _data(text: Text) -> bytes:
    return text.base64 if isinstance(text, Base64) else (text or "").encode()


@given(st.one_of(st.binary(), st.text().map(str.encode), st.text(st.characters(max_codepoint=31)).map(str.encode)))
def test_json_has_at_most_twice_the_bytes(value: bytes) -> None:
    """
    A batch that decompresses to a few megabytes cannot become a response of a hundred.
    """
    text = text_of(value)

    assert len(msgspec.json.encode(text)) <= 2 * len(value) + 20
    assert value == _data(text)


def test_names_of_headers_are_bounded_like_values() -> None:
    """
    A name is text, too, which the producer chooses.
    """
    record = Record(None, None, [("plain", b"\x00"), ("ä\tb", None), ("\x00" * 3, b"x")])

    headers = headers_of(record)

    assert [("plain", Base64(b"\x00")), ("ä\tb", None), (Base64(bytes(3)), "x")] == headers
    assert (
        len("plain") + 4 + sys.getsizeof("ä\tb") + 4 + 1 + 3 * HEADER_MEMORY
        == size_of_record(None, None, headers) - RECORD_MEMORY
    )

"""Showing keys and values as text, JSON or hex."""

import pytest

from tidemill.console.record_reader import AUTO, HEX, JSON, TEXT, Shown, show


@pytest.mark.parametrize(
    ("data", "asked", "format_", "text"),
    [
        (b"plain", AUTO, TEXT, "plain"),
        ("größe\t👋\n".encode(), AUTO, TEXT, "größe\t👋\n"),
        (b'{"a":1}', AUTO, TEXT, '{"a":1}'),
        (b"", AUTO, TEXT, ""),
        (b"\x1b[31merror\x1b[0m: no room", AUTO, TEXT, "␛[31merror␛[0m: no room"),
        (b"\x00\x01AB", AUTO, HEX, "000000  00 01 41 42                                      ..AB"),
        (b"\xff\xfe", AUTO, HEX, "000000  ff fe                                            .."),
        (b"\xff", TEXT, TEXT, "\ufffd"),
        (b"\x07", TEXT, TEXT, "␇"),
        ('{"ü":[1,"<b>"]}'.encode(), JSON, JSON, '{\n  "ü": [\n    1,\n    "<b>"\n  ]\n}'),
        (b"{broken", JSON, TEXT, "{broken"),
        (b"\xff", JSON, HEX, "000000  ff                                               ."),
        (b"[" * 100_000, JSON, TEXT, "[" * 100_000),
        (b"AB", HEX, HEX, "000000  41 42                                            AB"),
    ],
)
def test_bytes_are_shown_as_asked(data: bytes, asked: str, format_: str, text: str) -> None:
    """
    AUTO shows bytes as text if they are text, and as hex otherwise.  If JSON is requested for bytes that are not JSON,
    they are shown as with AUTO.  Control characters are made visible.
    """
    assert Shown(text=text, format=format_, size_bytes=len(data), is_cut=False) == show(data, asked, 1 << 20)


def test_no_value_differs_from_an_empty_one() -> None:
    """
    A null value is not shown as an empty one, because it makes the record a tombstone.
    """
    assert show(None, AUTO, 10) is None


@pytest.mark.parametrize(("format_", "text"), [(AUTO, "größe"), (JSON, "größe"), (TEXT, "größe")])
def test_a_large_value_is_cut(format_: str, text: str) -> None:
    """
    Only the beginning of a large value is shown, together with the full size, even if the cut falls within a character.
    """
    data = "größeü".encode()

    assert Shown(text=text, format=TEXT, size_bytes=9, is_cut=True) == show(data, format_, 8)


def test_a_large_number_of_digits_is_shown_as_text() -> None:
    """
    Python refuses to parse integers of more than 4,300 digits, but that must not make the page fail.
    """
    data = b"1" * 10_000

    shown = show(data, JSON, 1 << 20)

    assert shown is not None and (TEXT, data.decode()) == (shown.format, shown.text)

"""Lines of stdin become records, or say why not."""

import pytest

from tidemill.cli.record_line import record_of_line


def test_a_line_of_text_is_a_value() -> None:
    """
    Nothing is trimmed and nothing is decoded.
    """
    record = record_of_line(b" \xff ", "text", None)

    assert {"value": b" \xff "} == record


def test_what_precedes_the_first_separator_is_the_key() -> None:
    """
    Later separators belong to the value.
    """
    record = record_of_line(b"a::b::c", "text", b"::")

    assert {"key": b"a", "value": b"b::c"} == record


def test_a_record_that_was_consumed_can_be_produced() -> None:
    """
    Where it was is left to the broker; what it was is kept, headers of the same name too.
    """
    line = (
        b'{"topic": "t", "partition": 3, "offset": 9, "timestamp": 5, "timestamp_type": "CreateTime",'
        b' "key": {"base64": "/w=="}, "value": null, "headers": [["h", "1"], ["h", null]]}'
    )

    record = record_of_line(line, "json", None)

    assert {"key": b"\xff", "value": None, "headers": [("h", b"1"), ("h", None)], "timestamp": 5} == record


@pytest.mark.parametrize(
    ("line", "format_", "separator", "why"),
    [
        (b"no separator", "text", b":", "no key separator ':'"),
        (b"?", "base64", None, "base64|padding|character"),
        (b"3", "json", None, "wanted an object"),
        (b"{", "json", None, "Expecting"),
        (b'{"valeu": "v"}', "json", None, "unknown field 'valeu'"),
        (b'{"timestamp": "now"}', "json", None, "timestamp: wanted milliseconds"),
        (b'{"headers": {"a": "b"}}', "json", None, "headers: wanted a list"),
        (b'{"headers": ["a"]}', "json", None, r"headers: wanted \[name, value\]"),
    ],
)
def test_a_line_that_is_no_record_says_what_would_be(
    line: bytes, format_: str, separator: bytes | None, why: str
) -> None:
    """
    It is refused alone; the lines around it are produced.
    """
    with pytest.raises(ValueError, match=why):
        record_of_line(line, format_, separator)

"""Parsing lines of stdin into records."""

import pytest

from tidemill.cli.record_line import record_of_line


def test_a_line_of_text_is_a_value() -> None:
    """
    A line of text becomes the value of the record, and is neither trimmed nor decoded.
    """
    record = record_of_line(b" \xff ", "text", None)

    assert {"value": b" \xff "} == record


def test_the_first_separator_ends_the_key() -> None:
    """
    The key ends at the first separator; any later separators belong to the value.
    """
    record = record_of_line(b"a::b::c", "text", b"::")

    assert {"key": b"a", "value": b"b::c"} == record


def test_a_record_that_was_consumed_can_be_produced() -> None:
    """
    The JSON of a consumed record can be produced again: topic, partition and offset are ignored, and the content is
    kept.
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
        (b"3", "json", None, "expected an object"),
        (b"{", "json", None, "Expecting"),
        (b'{"valeu": "v"}', "json", None, "unknown field 'valeu'"),
        (b'{"timestamp": "now"}', "json", None, "timestamp: expected milliseconds"),
        (b'{"headers": {"a": "b"}}', "json", None, "headers: expected a list"),
        (b'{"headers": ["a"]}', "json", None, r"headers: expected \[name, value\]"),
    ],
)
def test_an_invalid_line_is_refused_with_the_fix(line: bytes, format_: str, separator: bytes | None, why: str) -> None:
    """
    An invalid line is refused with a fix, and the lines before and after it are still produced.
    """
    with pytest.raises(ValueError, match=why):
        record_of_line(line, format_, separator)

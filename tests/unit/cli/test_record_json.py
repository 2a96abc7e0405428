"""Conversion of records to JSON is lossless."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.cli.record_json import bytes_as_json, bytes_from_json


@given(st.none() | st.binary() | st.text().map(str.encode))
def test_bytes_survive_a_round_trip_through_json(value: bytes | None) -> None:
    """
    Bytes become text if they are UTF-8 and base64 otherwise, None becomes null, and parsing restores them.
    """
    shown = json.loads(json.dumps(bytes_as_json(value)))

    assert value == bytes_from_json(shown, "value")


def test_bytes_that_are_not_text_are_base64() -> None:
    """
    Bytes that are not text become base64 in a format that cannot be mistaken for text.
    """
    shown = bytes_as_json(b"\xff")

    assert {"base64": "/w=="} == shown


@pytest.mark.parametrize("wrong", [3, [], {"base64": "/w==", "more": 1}, {"base64": "?"}, {}])
def test_a_value_that_is_neither_text_nor_base64_is_refused(wrong: object) -> None:
    """
    A value that is neither text nor base64 is refused with an error that names the field.
    """
    with pytest.raises(ValueError, match=r"^key: "):
        bytes_from_json(wrong, "key")

"""A record as JSON loses nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.cli.record_json import bytes_as_json, bytes_from_json


@given(st.none() | st.binary() | st.text().map(str.encode))
def test_bytes_come_back_from_json_as_they_were(value: bytes | None) -> None:
    """
    Text where it is UTF-8, base64 where it is not, null where there is nothing.
    """
    shown = json.loads(json.dumps(bytes_as_json(value)))

    assert value == bytes_from_json(shown, "value")


def test_bytes_that_are_not_text_are_base64() -> None:
    """
    A reader can tell them from a text that happens to look the same.
    """
    shown = bytes_as_json(b"\xff")

    assert {"base64": "/w=="} == shown


@pytest.mark.parametrize("wrong", [3, [], {"base64": "/w==", "more": 1}, {"base64": "?"}, {}])
def test_what_is_neither_text_nor_base64_is_refused_by_name(wrong: object) -> None:
    """
    A wrong field is never guessed at.
    """
    with pytest.raises(ValueError, match=r"^key: "):
        bytes_from_json(wrong, "key")

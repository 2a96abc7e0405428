"""Sequences of tagged fields."""

import pytest

from tidemill.peer.tagged_fields import MalformedFrame, tagged, tagged_fields


def test_fields_are_read_as_they_were_written() -> None:
    data = tagged(1, b"first") + tagged(255, b"") + tagged(1, b"again")

    assert [(1, b"first"), (255, b""), (1, b"again")] == [*tagged_fields(memoryview(data), "a report")]


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        (b"\x09\x00\x00", "3 bytes at the end of a report are too few for a field"),
        (b"\x09\x00\x00\x00\x05four", "field 9 of a report announces 5 bytes; 4 are left"),
    ],
)
def test_a_field_that_is_cut_off_is_refused_after_those_before_it(cut: bytes, text: str) -> None:
    """What was complete may already be in use; the rest would be misread."""
    fields = tagged_fields(memoryview(tagged(1, b"whole") + cut), "a report")

    assert (1, b"whole") == next(fields)
    with pytest.raises(MalformedFrame, match=text):
        next(fields)

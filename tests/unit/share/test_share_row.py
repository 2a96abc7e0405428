"""The encoding of SHARE commands."""

from collections.abc import Iterable
from struct import error

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.share.random_sections import SECTIONS
from tests.unit.share.runs import run
from tidemill.share.record_status import Reason, RecordState
from tidemill.share.share_row import (
    ROW_BYTES_MAX,
    AssignLetters,
    CloseShare,
    Letter,
    LettersWritten,
    OpenShare,
    Section,
    SetRuns,
    UnknownShareRow,
    decode_row,
    encode_row,
    encode_rows,
)


@given(st.lists(SECTIONS, max_size=8))
def test_a_row_comes_back(sections: list[Section]) -> None:
    """Decoding a SHARE command yields the sections that were encoded."""
    assert sections == list(decode_row(encode_row(sections)))


@given(st.lists(SECTIONS, min_size=1, max_size=8))
def test_few_sections_are_one_row(sections: list[Section]) -> None:
    """Sections that fit into one row are in one row."""
    assert [(encode_row(sections), len(sections))] == encode_rows(sections)


def test_sections_that_do_not_fit_go_on_in_further_rows() -> None:
    """
    A row has at most 64 KiB.  A section with more runs, letters or offsets is divided between two of them, and each row
    says how many sections end in it.
    """
    scattered = [
        run(2 * number, 2 * number + 1, RecordState.ACKNOWLEDGED, delivery_count=1) for number in range(10_000)
    ]
    timed = [one._replace(value=one.value._replace(state=RecordState.AVAILABLE, release_at=9)) for one in scattered]
    letters = [Letter(number, 1, number, b"t" * 16, 0) for number in range(5_000)]
    sections: list[Section] = [
        OpenShare(0, "group", 1, 0, 5),
        SetRuns(0, 1, tuple(scattered)),
        SetRuns(1, 2, tuple(timed)),
        AssignLetters(0, 1, tuple(letters)),
        LettersWritten(0, 1, tuple(range(20_000))),
        CloseShare(0, 1, 1),
    ]

    rows = encode_rows(sections)

    assert all(len(payload) <= ROW_BYTES_MAX for payload, _ in rows)
    assert len(sections) == sum(ended for _, ended in rows)
    decoded = [list(decode_row(payload)) for payload, _ in rows]
    for (_, ended), row in zip(rows, decoded, strict=True):
        assert ended <= len(row) <= ended + 1
    assert sections == _joined(section for row in decoded for section in row)


def _joined(parts: Iterable[Section]) -> list[Section]:
    """Join consecutive sections of the same kind and share."""
    joined: list[Section] = []
    for part in parts:
        match joined[-1:], part:
            case [SetRuns(partition, share, runs)], SetRuns() if part[:2] == (partition, share):
                joined[-1] = part._replace(runs=runs + part.runs)
            case [AssignLetters(partition, share, letters)], AssignLetters() if part[:2] == (partition, share):
                joined[-1] = part._replace(letters=letters + part.letters)
            case [LettersWritten(partition, share, offsets)], LettersWritten() if part[:2] == (partition, share):
                joined[-1] = part._replace(offsets=offsets + part.offsets)
            case _:
                joined.append(part)
    return joined


def test_the_bytes_are_those_of_the_page() -> None:
    """The encoding of a SHARE command matches docs/formats/shares.md."""
    row = encode_row([SetRuns(2, 7, (run(1000, 1003, RecordState.ARCHIVING, Reason.REJECTED, 4),))])

    assert "03 01 00000002 00000007 03 0000000f 00000000000003e8 00000003 13 0004".replace(" ", "") == row.hex()


def test_a_run_too_long_for_a_row_is_divided() -> None:
    """The length of a run is stored in four bytes; a run too long for them is encoded as several consecutive runs."""
    whole = run(5, 5 + (1 << 33), RecordState.ACKNOWLEDGED)

    (section,) = decode_row(encode_row([SetRuns(0, 1, (whole,))]))

    assert isinstance(section, SetRuns)
    assert (5, whole.end, 3) == (section.runs[0].first, section.runs[-1].end, len(section.runs))


@pytest.mark.parametrize(
    "payload", [b"\x03\x02", b"\x03\x01" + bytes(8) + b"\x07" + bytes(4)], ids=["version", "operation"]
)
def test_a_newer_row_is_refused(payload: bytes) -> None:
    """
    A SHARE command with an unknown version or operation is refused: a replica that skipped it would diverge from the
    others.
    """
    with pytest.raises(UnknownShareRow, match=r"has (version 2|operation 7)"):
        list(decode_row(payload))


def test_a_row_that_ends_early_is_corrupt() -> None:
    """Every prefix of a row that ends within a section is refused, so that no section is silently applied in part."""
    row = encode_row([OpenShare(0, "group", 1, 0, 5)])
    for end in range(3, len(row)):
        with pytest.raises(error):
            list(decode_row(row[:end]))


def test_an_unknown_state_is_corrupt() -> None:
    """The error about an unknown state byte names the offset of the run."""
    row = bytearray(encode_row([SetRuns(0, 1, (run(9, 10, RecordState.ARCHIVED),))]))
    row[-3] = 0x01

    with pytest.raises(error, match="the run at offset 9 has the state byte 0x01"):
        list(decode_row(row))

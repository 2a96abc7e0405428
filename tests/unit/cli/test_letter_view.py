"""How `tidemill dlq show` prints a letter."""

import pytest

from tests.unit.cli.dead_letters import dead_letter
from tidemill.cli.letter_view import CHARACTERS_MAX, age, as_json, lines, shown

AT_MS = 1_767_268_800_000


def test_a_letter_shows_the_dead_record() -> None:
    """
    A person sees where the record was, who gave it up and why, and its content.
    """
    letter = dead_letter(7, timestamp_ms=AT_MS, origin_ms=AT_MS - 1_000, headers=(("trace", b"t-1"), ("empty", None)))

    assert [
        ("letter", "dlq.orders-0, offset 7"),
        ("origin", "orders-2, offset 107, 2026-01-01T11:59:59Z"),
        ("group", "billing"),
        ("cause", "rejected"),
        ("attempts", 3),
        ("age", "5m (2026-01-01T12:00:00Z)"),
        ("key", "k"),
        ("value", "v"),
        ("header", "trace: t-1"),
        ("header", "empty: -"),
    ] == list(lines(letter, "dlq.orders", AT_MS + 300_000))


def test_an_object_has_the_whole_record() -> None:
    """
    Programs get every field, with bytes as `consume --format json` has them, and only the record's own headers.
    """
    long = b"x" * 2_000
    letter = dead_letter(7, timestamp_ms=AT_MS, value=long, key=b"\xff", headers=(("trace", b"t-1"),))

    row = as_json(letter, "dlq.orders", AT_MS)

    assert (long.decode(), {"base64": "/w=="}, [["trace", "t-1"]]) == (row["value"], row["key"], row["headers"])
    assert {"topic": "orders", "partition": 2, "offset": 107, "timestamp": None} == row["origin"]
    assert ("rejected", 3, 0, None) == (row["cause"], row["attempts"], row["age_ms"], row["omitted"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (b"", ""),
        ("żółć".encode(), "żółć"),
        (b"\x1b[2J\n", r"\x1b[2J\n"),
        (b"\xff\x00", r"\xff\x00"),
        (b"x" * 401, "x" * CHARACTERS_MAX + "… (401 bytes)"),
    ],
)
def test_bytes_are_shown_on_one_line(value: bytes | None, text: str) -> None:
    """
    No value reaches the terminal as a control sequence or fills it.
    """
    assert text == shown(value)


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "0s"), (59_999, "59s"), (60_000, "1m"), (7_200_000, "2h"), (8 * 86_400_000, "8d")]
)
def test_an_age_has_the_unit_of_a_condition(milliseconds: int, text: str) -> None:
    """
    Ages have the format in which `--where` takes them.
    """
    assert text == age(milliseconds)

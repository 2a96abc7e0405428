"""The counts and tables that commands print."""

import io

import pytest
from rich.console import Console

from tidemill.cli.output import counted, print_fields, print_table, table_of


@pytest.mark.parametrize(("count", "text"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_a_count_agrees_with_its_noun(count: int, text: str) -> None:
    """
    The noun is singular for one thing and plural for any other number.
    """
    assert text == counted(count, "record")
    assert text.replace("records", "batches").replace("record", "batch") == counted(count, "batch", "batches")


def test_numbers_are_aligned_to_the_right() -> None:
    """
    Columns of numbers are aligned to the right and all others to the left, and a missing value is a dash.
    """
    rows = [["a", 5, "+1", None], ["b", None, "-20", None], ["c", 123, "0", None]]

    lines = drawn(table_of(("name", "size", "change", "none"), rows), width=60).splitlines()

    assert ["│ a    │    5 │     +1 │ -    │", "│ b    │    - │    -20 │ -    │"] == lines[3:5]


def test_a_narrow_terminal_keeps_the_first_column_whole() -> None:
    """
    The first column, which names the row, does not wrap, so that users can copy it.  The other columns wrap, and no
    text is lost.
    """
    rows = [["a.configuration.key.of.40.characters.xx", "[x]" * 20, "broker's start", "[y]" * 5]]

    lines = drawn(table_of(("key", "value", "source", "default"), rows), width=80).splitlines()

    assert {80} == {len(line) for line in lines}
    assert 1 == sum(rows[0][0] in line for line in lines)
    assert (20, 5) == (sum(line.count("[x]") for line in lines), sum(line.count("[y]") for line in lines))


def test_a_pipe_gets_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    """
    If the output is not a terminal, cells are separated by tabs, so that `cut` and `awk` can split them.
    """
    print_table(("name", "size"), [["a", None], ["b", 7]])
    print_fields({"name": "a", "total lag": None})

    assert "name\tsize\na\t-\nb\t7\nname       a\ntotal lag  -\n" == capsys.readouterr().out


def drawn(table: object, *, width: int) -> str:
    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(table)
    return file.getvalue()

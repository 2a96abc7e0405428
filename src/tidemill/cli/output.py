"""Output of commands on stdout: JSON lines for programs, tables for people."""

import json
import os
import re
import select
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.table import Table

Cells = Sequence[object]
FIRST_COLUMN_MAX: Final = 40  # the width up to which the first column, which names the row, is not wrapped
_A_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?|-")


def print_json(row: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(row, ensure_ascii=False, separators=(", ", ": ")) + "\n")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return the count with its noun in singular or plural: "1 record", "2 records"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def print_fields(fields: Mapping[str, object]) -> None:
    """Print one named value per line, with the values aligned in a column."""
    width = max(map(len, fields))
    for name, value in fields.items():
        print(f"{name:{width}}  {or_dash(value)}")


def or_dash(value: object) -> object:
    return "-" if value is None else value


def print_table(columns: Sequence[str], rows: Iterable[Cells], *, title: str | None = None) -> None:
    """Print a table if stdout is a terminal, and otherwise tab-separated lines with a header, for `cut` and `awk`."""
    if not sys.stdout.isatty():
        for cells in (columns, *rows):
            print("\t".join(str(or_dash(cell)) for cell in cells))
        return

    from rich.console import Console  # imported here because the import is slow (decision 12)

    Console().print(table_of(columns, list(rows), title=title))


def table_of(
    columns: Sequence[str], rows: Sequence[Cells], *, title: str | None = None, caption: str | None = None
) -> "Table":
    """Return a table for a terminal.  Columns of numbers are aligned to the right; None is shown as a dash."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for index, name in enumerate(columns):
        texts = {str(or_dash(cells[index])) for cells in rows}
        is_number = texts != {"-"} and all(map(_A_NUMBER.fullmatch, texts))
        is_whole = index == 0 and max(map(len, texts), default=0) <= FIRST_COLUMN_MAX
        table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_whole)
    for cells in rows:
        # Cells are Text, because rich interprets brackets in a str as markup.
        table.add_row(*(Text(str(or_dash(cell))) for cell in cells))
    return table


@contextmanager
def pipe_may_close() -> Iterator[None]:
    """End the block without an error if the reader of stdout closes the pipe (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # At exit the interpreter flushes stdout again; without this redirection, it would report the broken pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def reader_has_left() -> bool:
    """Return whether the reader of stdout has closed the pipe.  A command that writes nothing would not notice this."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poller.poll(0))

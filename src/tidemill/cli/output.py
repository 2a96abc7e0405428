"""Output of commands on stdout: JSON lines for programs, tables for people."""

import json
import os
import select
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


def print_json(row: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(row, ensure_ascii=False, separators=(", ", ": ")) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table if stdout is a terminal, and otherwise tab-separated lines with a header, for `cut` and `awk`."""
    if not sys.stdout.isatty():
        for cells in (columns, *rows):
            print("\t".join(str(cell) for cell in cells))
        return

    from rich.console import Console  # imported late (decision 12)
    from rich.table import Table

    table = Table(*columns, title=title, title_justify="left")
    for cells in rows:
        table.add_row(*(str(cell) for cell in cells))
    Console().print(table)


@contextmanager
def pipe_may_close() -> Iterator[None]:
    """End the block without error if the reader of stdout closes its pipe (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # At exit the interpreter flushes stdout again, and would report the error without this.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def reader_has_left() -> bool:
    """Return whether the reader of stdout has closed its pipe, which a command that writes nothing would not notice."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poller.poll(0))

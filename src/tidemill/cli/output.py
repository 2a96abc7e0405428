"""What commands print on stdout: JSON lines for programs, tables for people."""

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
    """A table on a terminal; tab-separated with a header line in a pipe, where `cut` and `awk` read it."""
    if not sys.stdout.isatty():
        for cells in (columns, *rows):
            print("\t".join(str(cell) for cell in cells))
        return

    from rich.console import Console  # costs 0.1 s: only people who look at a table pay
    from rich.table import Table

    table = Table(*columns, title=title, title_justify="left")
    for cells in rows:
        table.add_row(*(str(cell) for cell in cells))
    Console().print(table)


@contextmanager
def pipe_may_close() -> Iterator[None]:
    """A reader that has seen enough (`| head`) ends the command quietly, and well."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def reader_has_left() -> bool:
    """Whether nobody reads our pipe any more: who only waits for records would not learn it by writing."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poller.poll(0))

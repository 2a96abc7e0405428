"""Refills of a leader's window."""

from types import ModuleType

from tests.unit.timer.due_rows import bits_of, key, row
from tidemill.timer.due_refill import Refill
from tidemill.timer.due_row import ROW_BYTES, DueRow, pack_rows
from tidemill.timer.due_run import HEAD_BYTES, DueRun, ReadRun, UnwrittenRun, decode_run
from tidemill.timer.due_window import LAST_EDGE, NO_EDGE


def run_of(name: str, *rows: DueRow) -> ReadRun:
    return decode_run(name, UnwrittenRun(name, 0, 99, [pack_rows(rows)], over=0).encode(0), chunk_rows=2)


def data_of(refill: Refill, *reads: ReadRun) -> list[bytes | None]:
    rows = {read.run.name: read.rows for read in reads}
    return [rows[name][position - HEAD_BYTES : position - HEAD_BYTES + size] for name, position, size in refill.reads]


def refill_of(runs: list[DueRun], blocks: list[bytes], edge: bytes = NO_EDGE, rows_max: int = 100) -> Refill:
    return Refill(runs, blocks, edge, bits_of(100), read_rows=3, rows_max=rows_max)


def test_the_next_rows_of_runs_and_memory_are_found(due_scan: ModuleType) -> None:
    """The new edge is where the first chunk begins that is not read."""
    one, other = run_of("1", *(row(10 * it, it) for it in range(6))), run_of("2", row(5, 50), row(900, 51))
    blocks = [pack_rows([row(7, 60), row(200, 61)]), pack_rows([row(20, 1), row(300, 62)])]

    refill = refill_of([one.run, other.run], blocks)
    refill.supply(data_of(refill, one, other))

    assert key(20, 2) == refill.edge
    assert pack_rows([row(0, 0), row(5, 50), row(7, 60), row(10, 1), row(20, 1)]) == refill.rows
    assert [] == refill.unreadable


def test_nothing_is_read_without_runs(due_scan: ModuleType) -> None:
    refill = refill_of([], [pack_rows([row(7, 1), row(3, 2)])], edge=key(4, 0))
    refill.supply([])

    assert ([], pack_rows([row(7, 1)]), LAST_EDGE) == (refill.reads, refill.rows, refill.edge)


def test_many_rows_in_memory_are_cut(due_scan: ModuleType) -> None:
    """The edge is the first row that is left out; the copies of a row are on the same side of it."""
    copies = [row(7, 5), row(7, 5, kept=1), row(7, 5, kept=2)]
    block = pack_rows([*(row(7, it) for it in range(9)), *copies[1:]])
    for rows_max, count in ((4, 4), (6, 8), (7, 8), (8, 8), (9, 9), (11, 11), (12, 11)):
        refill = refill_of([], [block], rows_max=rows_max)
        refill.supply([])

        assert count == len(refill.rows) // ROW_BYTES
        assert {4: key(7, 4), 8: key(7, 6), 9: key(7, 7), 11: LAST_EDGE}[count] == refill.edge


def test_rows_that_are_over_are_left_out(due_scan: ModuleType) -> None:
    """If most are, the next refill reads more."""
    read = run_of("1", *(row(1, it) for it in range(8)))
    for over, is_few in ((0, False), (6, False), (7, True), (8, True)):
        refill = Refill([read.run], [], NO_EDGE, bits_of(100, range(over)), read_rows=99, rows_max=99)
        refill.supply(data_of(refill, read))

        assert (8 - over, is_few) == (len(refill.rows) // ROW_BYTES, refill.found_few)


def test_damaged_and_missing_runs_are_named(due_scan: ModuleType) -> None:
    reads = [run_of(name, row(1, at)) for at, name in enumerate(("1", "2", "3"))]
    refill = refill_of([read.run for read in reads], [])
    first, _, third = data_of(refill, *reads)
    assert third is not None

    refill.supply([first, None, third[:-1] + b"-"])

    assert ({"2", "3"}, b"") == ({*refill.unreadable}, refill.rows)

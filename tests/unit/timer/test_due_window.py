"""The rows that a leader releases next."""

import random
from types import ModuleType

from tests.unit.timer.due_rows import bits_of, key, row
from tidemill.timer.due_row import KEPT, DueRow, pack_rows, unpack_rows
from tidemill.timer.due_window import LAST_EDGE, TAKEN_MIN, RowFilter, Window


def filter_of(*over: int, rescheduled: dict[int, int] | None = None, starts: tuple[int, int] = (0, 0)) -> RowFilter:
    return RowFilter(*bits_of(20_000, over), rescheduled or {}, starts[0], KEPT | starts[1])


def window_of(*rows: DueRow, edge: bytes = LAST_EDGE) -> Window:
    window = Window()
    window.extend(pack_rows(sorted(rows)), edge)
    return window


def taken(window: Window, limit: int, row_filter: RowFilter | None = None, count: int = 100) -> list[DueRow]:
    return [*unpack_rows(window.take(limit, count, 1 << 30, row_filter or filter_of()))]


def test_rows_of_slices_and_of_the_heap_are_taken_in_order(due_scan: ModuleType) -> None:
    window = window_of(row(10, 1), row(30, 3), edge=key(40, 0))
    window.push(pack_rows([row(35, 5), row(20, 9)]))
    window.extend(pack_rows([row(40, 2), row(50, 4)]), LAST_EDGE)
    window.push(pack_rows([row(45, 6)]))

    assert 7 == len(window)
    assert [1, 9, 3] == [it.arrival for it in taken(window, 30)]
    assert [5, 2, 6, 4] == [it.arrival for it in taken(window, 99)]
    assert (0, []) == (len(window), taken(window, 99))


def test_records_and_bytes_bound_what_is_taken(due_scan: ModuleType) -> None:
    """One row is returned even if its record is larger."""
    window = window_of(*(row(1, it, size=10) for it in range(9)), row(2, 10, size=500))

    found = [window.take(9, count, size, filter_of()) for count, size in ((2, 99), (9, 30), (9, 5))]
    assert [2, 3, 1] == [len([*unpack_rows(rows)]) for rows in found]
    assert 0 == len(window.take(9, 0, 99, filter_of()))
    assert [6, 7, 8] == [it.arrival for it in unpack_rows(window.take(9, 9, 100, filter_of()))]
    assert [10] == [it.arrival for it in unpack_rows(window.take(9, 9, 100, filter_of()))]


def test_bytes_are_counted_across_slices(due_scan: ModuleType) -> None:
    window = window_of(row(1, 1), row(1, 2), edge=key(2, 0))
    window.extend(pack_rows([row(2, 3), row(2, 4)]), LAST_EDGE)

    assert [1, 2, 3] == [it.arrival for it in unpack_rows(window.take(9, 9, 30, filter_of()))]


def test_rows_that_do_not_count_are_skipped(due_scan: ModuleType) -> None:
    """Those of arrivals that are over, that are due at another time, and whose records were cut off their log."""
    window = window_of(row(1, 1), row(2, 2), row(3, 3), row(4, 4, kept=4), row(5, 5, kept=5), row(6, 6))
    row_filter = filter_of(1, rescheduled={2: 99, 6: 6}, starts=(4, 5))

    assert 5 == window.first_due(row_filter)
    assert [5, 6] == [it.arrival for it in taken(window, 99, row_filter)]
    assert window.first_due(row_filter) is None


def test_the_newest_copy_is_taken(due_scan: ModuleType) -> None:
    """Copies come from slices and from the heap, in any order; a copy that does not fit does not count twice."""
    old, newer, newest = row(5, 1), row(5, 1, kept=3), row(5, 1, kept=8)
    for in_slice, in_heap in (([old], [newest, newer]), ([newest, old], [newer]), ([newer], [old, newest])):
        window = window_of(*in_slice, row(5, 2))
        window.push(pack_rows(in_heap))

        assert [newest] == taken(window, 9, count=1)
        assert [row(5, 2)] == taken(window, 9)


def test_rows_are_taken_once_until_they_are_put_back(due_scan: ModuleType) -> None:
    window = window_of(row(1, 1), row(2, 2))
    assert [1, 2] == [it.arrival for it in taken(window, 9)]
    window.push(pack_rows([row(1, 1)]))

    assert ([], None) == (taken(window, 9), window.first_due(filter_of()))
    window.put_back(pack_rows([row(1, 1)]))
    assert [1] == [it.arrival for it in taken(window, 9)]


def test_a_row_that_is_claimed_is_not_taken_again(due_scan: ModuleType) -> None:
    """Its record was moved to another time and back.  When it is put back, its newest copy counts."""
    old, newest = row(1, 1), row(1, 1, kept=3)
    window = window_of(old)
    taken(window, 9)
    window.allow_again(pack_rows([old]))
    window.push(pack_rows([newest]))

    window.claim(pack_rows([old]))

    assert ([], None) == (taken(window, 9), window.first_due(filter_of()))
    window.put_back(pack_rows([old]))
    assert [newest] == taken(window, 9)


def test_a_newer_copy_of_a_taken_row_replaces_it_when_it_is_put_back(due_scan: ModuleType) -> None:
    """The record may have been moved meanwhile, and its first segment removed."""
    old, newest = row(1, 1), row(1, 1, kept=3)
    for is_seen in (False, True):
        window = window_of(old)
        taken(window, 9)
        window.push(pack_rows([newest]))
        assert not is_seen or window.first_due(filter_of()) is None

        window.put_back(pack_rows([old]))

        assert [newest] == taken(window, 9)


def test_rows_between_two_keys_are_found_in_slices_and_in_the_heap(due_scan: ModuleType) -> None:
    """In order, and without those that were taken from a slice."""
    window = window_of(row(10, 1), row(20, 2), row(20, 3), edge=key(30, 0))
    window.extend(pack_rows([row(30, 4), row(40, 5)]), LAST_EDGE)
    window.push(pack_rows([row(35, 7), row(19, 8), row(40, 6)]))
    taken(window, 10)

    for low, high, arrivals in (
        (b"", LAST_EDGE, [8, 2, 3, 4, 7, 5, 6]),
        (key(20, 2), key(40, 5), [2, 3, 4, 7]),
        (key(20, 3), key(35, 7), [3, 4]),
        (key(41, 0), LAST_EDGE, []),
    ):
        assert arrivals == [it.arrival for it in unpack_rows(window.between(low, high))]


def test_rows_between_two_keys_are_found_wherever_they_are_in_the_heap(due_scan: ModuleType) -> None:
    """The search leaves out what lies below a row that is not before the upper key."""
    dues = [*range(100)]
    random.Random(26).shuffle(dues)
    window = window_of()
    window.push(pack_rows([row(due, due) for due in dues]))

    for low, high in ((0, 100), (0, 1), (99, 100), (20, 50), (50, 50)):
        rows = window.between(key(low, 0), key(high, 0))
        assert [*range(low, high)] == [it.arrival for it in unpack_rows(rows)]


def test_a_trimmed_window_keeps_the_first_rows(due_scan: ModuleType) -> None:
    """The edge moves down to the first row that is left out, between rows of one due time."""
    window = window_of(*(row(7, it) for it in range(0, 10, 2)))
    window.push(pack_rows([row(7, it) for it in range(1, 10, 2)]))

    window.trim(3)

    assert (3, key(7, 3)) == (len(window), window.edge)
    assert [0, 1, 2] == [it.arrival for it in taken(window, 9)]


def test_trimming_never_divides_copies(due_scan: ModuleType) -> None:
    window = window_of(row(1, 1), row(2, 2), row(2, 2, kept=1), row(2, 2, kept=2), row(3, 3))

    window.trim(3)

    assert (1, key(2, 2)) == (len(window), window.edge)
    window.trim(5)
    assert 1 == len(window)


def test_rows_beyond_the_edge_are_not_put_back(due_scan: ModuleType) -> None:
    """They are read again when the edge moves up."""
    window = window_of(row(1, 1), row(2, 2), row(3, 3), row(4, 4))
    assert 2 == len(taken(window, 2))
    window.push(pack_rows([row(1, 7)]))
    window.trim(0)

    window.put_back(pack_rows([row(2, 2)]))
    assert 0 == len(window)

    window.extend(pack_rows([row(1, 1), row(1, 7), row(2, 2)]), LAST_EDGE)
    assert [7, 2] == [it.arrival for it in taken(window, 9)]


def test_what_was_taken_is_forgotten_when_it_is_over(due_scan: ModuleType) -> None:
    """Memory is bounded by the rows that are taken and still wait."""
    count = 2 * TAKEN_MIN
    window = window_of(*(row(1, it) for it in range(count)))
    taken(window, 9, count=count - 1)

    taken(window, 9, filter_of(*range(count - 10)), count=1)

    assert 10 == len(window._taken)

"""Scans of packed rows, with both implementations."""

from random import Random
from types import ModuleType

import pytest

from tests.unit.timer.due_rows import bits_of, key, random_rows, row
from tidemill.timer.due_row import KEPT, KEY_BYTES, ROW_BYTES, DueRow, pack_rows, unpack_rows
from tidemill.timer.due_window import LAST_EDGE, NO_EDGE, RowFilter

seeds = pytest.mark.parametrize("seed", range(30))


def drawn(seed: int) -> tuple[Random, list[DueRow]]:
    random = Random(seed)
    count, dues = random.choice((0, 1, 2, 50, 3_000)), random.choice((1, 9, 9_000))
    return random, random_rows(random, count, dues=dues, arrivals=60)


@seeds
def test_rows_are_sorted(due_scan: ModuleType, seed: int) -> None:
    """Copies with one key are in the order of their offsets, the newest last."""
    random, rows = drawn(seed)
    rows = sorted(rows) if random.random() < 0.2 else rows
    middle = random.randrange(len(rows) + 1)

    found = due_scan.sorted_rows([pack_rows(rows[:middle]), b"", pack_rows(rows[middle:])])

    assert pack_rows(sorted(rows)) == found


def test_far_words_are_sorted(due_scan: ModuleType) -> None:
    """All 64 bits of due times and arrivals count."""
    random = Random(7)
    rows = [row(random.randrange(1 << 63), 0)._replace(arrival=random.randrange(1 << 64)) for _ in range(500)]
    rows += [it._replace(due_ms=5) for it in rows]

    assert pack_rows(sorted(rows)) == due_scan.sorted_rows([pack_rows(rows)])


@seeds
def test_rows_are_split_at_edges(due_scan: ModuleType, seed: int) -> None:
    """The edges are pairs (due, arrival): rows of one due time may be on both sides."""
    random, rows = drawn(seed)
    keys = [pack_rows([it])[:KEY_BYTES] for it in rows]
    edges = [*keys, *(key(random.randrange(9), random.randrange(60)) for _ in range(4)), NO_EDGE, LAST_EDGE]
    low, high = sorted(random.choices(edges, k=2))

    found = due_scan.split_rows(pack_rows(rows), low, high)

    assert [it for it, its_key in zip(rows, keys, strict=True) if low <= its_key < high] == [*unpack_rows(found)]


def test_a_large_block_is_split_without_the_gil(due_scan: ModuleType) -> None:
    rows = random_rows(Random(1), 5_000, dues=1_000, arrivals=5_000)

    found = due_scan.split_rows(pack_rows(rows), key(100, 0), key(500, 0))

    assert pack_rows([it for it in rows if 100 <= it.due_ms < 500]) == found


@seeds
def test_rows_of_arrivals_that_wait_are_kept(due_scan: ModuleType, seed: int) -> None:
    random, rows = drawn(seed)
    end = random.choice((0, 1, 40, 100))
    over = random.sample(range(end), random.randrange(end + 1))

    found = due_scan.waiting_rows(pack_rows(rows), bits_of(end, over))

    assert pack_rows([it for it in rows if it.arrival < end and it.arrival not in over]) == found


def test_bits_may_begin_late(due_scan: ModuleType) -> None:
    """Arrivals before the first bit, and those that have not come yet, do not wait."""
    bits = bits_of(200_000, range(70_000))._replace(base=65_536, first=70_000)
    bits = bits._replace(over=bits.over[65_536 // 8 :])
    rows = [row(1, it) for it in (0, 65_535, 65_536, 69_999, 70_000, 199_999, 200_000, 1 << 40)]

    assert [70_000, 199_999] == [it.arrival for it in unpack_rows(due_scan.waiting_rows(pack_rows(rows), bits))]


@seeds
def test_the_bounds_of_arrivals_are_found(due_scan: ModuleType, seed: int) -> None:
    _, rows = drawn(seed)
    arrivals = [it.arrival for it in rows] or [5]

    assert (min(arrivals), max(arrivals)) == due_scan.arrival_bounds(pack_rows(rows or [row(1, 5)]))


@seeds
def test_rows_of_rescheduled_arrivals_get_their_new_times(due_scan: ModuleType, seed: int) -> None:
    random, rows = drawn(seed)
    rescheduled = {it: random.randrange(9) for it in random.sample(range(50), random.choice((0, 10)))}

    found = due_scan.rescheduled_rows(pack_rows(rows), rescheduled)

    moved = (it for it in rows if rescheduled.get(it.arrival, it.due_ms) != it.due_ms)
    assert [it._replace(due_ms=rescheduled[it.arrival]) for it in moved] == [*unpack_rows(found)]


def row_filter(end: int, over: list[int], rescheduled: dict[int, int], starts: tuple[int, int] = (0, 0)) -> RowFilter:
    return RowFilter(*bits_of(end, over), rescheduled, starts[0], KEPT | starts[1])


@seeds
def test_taken_rows_that_do_not_count_are_forgotten(due_scan: ModuleType, seed: int) -> None:
    """A row counts while its arrival waits and is due when the row says, and its offset is in its log."""
    random, rows = drawn(seed)
    over = random.sample(range(50), 20)
    rescheduled = {it: random.randrange(9) for it in random.sample(range(50), random.choice((0, 10)))}
    starts = random.randrange(20), random.randrange(9)
    taken = {(packed := pack_rows([it]))[:KEY_BYTES]: packed for it in rows}

    found = due_scan.taken_still(taken, row_filter(50, over, rescheduled, starts))

    def counts(it: DueRow) -> bool:
        start = KEPT | starts[1] if it.offset >= KEPT else starts[0]
        is_current = rescheduled.get(it.arrival, it.due_ms) == it.due_ms
        return it.arrival < 50 and it.arrival not in over and is_current and it.offset >= start

    assert {its_key: packed for its_key, packed in taken.items() if counts(next(unpack_rows(packed)))} == found


@seeds
def test_rows_of_a_slice_and_of_a_heap_are_taken_in_order(due_scan: ModuleType, seed: int) -> None:
    """
    Rows before the bound that count are taken, each key once and its newest copy, within the limits.  The first row
    that does not fit is returned, and stays.
    """
    random, rows = drawn(seed)
    rows = rows[:80]
    packed = sorted(pack_rows([it]) for it in rows)
    in_heap = {it for it in range(len(packed)) if random.random() < 0.5}
    heap = [packed[it] for it in sorted(in_heap)]
    rest = [packed[it] for it in range(len(packed)) if it not in in_heap]
    over = random.sample(range(60), 10)
    bound, records_max, size_max = random.choice((1, 5, 1 << 62)), random.randrange(30), random.choice((5, 95, 10_000))
    newest = {it[:KEY_BYTES]: it for it in packed if int.from_bytes(it[8:16], "big") not in over}
    expected = sorted(it for it in newest.values() if int.from_bytes(it[:8], "big") < bound)
    expected_count = min(records_max, max(size_max // 10, 1), len(expected))
    taken: dict[bytes, bytes] = {}
    found: list[bytes] = []

    limits = bound.to_bytes(8, "big"), records_max, size_max
    position, left = due_scan.take_rows(b"".join(rest), 0, heap, taken, *limits, row_filter(60, over, {}), found)

    is_slice_used_up = bool(rest) and position == ROW_BYTES * len(rest)
    assert expected[: len(found)] == found
    assert {it[:KEY_BYTES]: it for it in found} == taken
    assert is_slice_used_up or len(found) == expected_count
    assert is_slice_used_up or (left is None) == (len(found) == len(expected))

"""The newest rows of one log."""

from itertools import pairwise
from random import Random
from types import ModuleType

from tests.unit.timer.due_rows import bits_of, row
from tidemill.timer.due_row import ROW_BYTES, arrivals_of, pack_rows
from tidemill.timer.unsorted_rows import BLOCK_ROWS, UnsortedRows


def rows_of(*arrivals: int) -> bytes:
    return pack_rows([row(100, it) for it in arrivals])


def test_small_additions_share_blocks(due_scan: ModuleType) -> None:
    unsorted = UnsortedRows()
    for arrival in range(1_000):
        unsorted.add(rows_of(arrival), arrival, arrival + 1)

    assert rows_of(*range(1_000)) == b"".join(unsorted.blocks())
    assert 1_000 * ROW_BYTES == unsorted.size
    assert 3 == len(unsorted.blocks()) == -(-1_000 // BLOCK_ROWS)


def test_a_large_addition_is_divided_and_keeps_its_range(due_scan: ModuleType) -> None:
    """The parts have the ranges of their rows, so a run can end between them."""
    unsorted = UnsortedRows()
    unsorted.add(rows_of(*range(0, 10_000, 2)), 0, 10_000)

    assert all(len(block) <= BLOCK_ROWS * ROW_BYTES for block in unsorted.blocks())
    gathered = unsorted.gather(2_000, bits_of(10_000))
    assert gathered is not None
    assert (0, 4_000) == (gathered.first, gathered.end)
    assert [*range(0, 4_000, 2)] == arrivals_of(b"".join(gathered.blocks))


def test_rows_that_do_not_wait_are_dropped(due_scan: ModuleType) -> None:
    """The next run includes their range, so that no gap is between runs."""
    unsorted = UnsortedRows()
    unsorted.add(rows_of(*range(10)), 0, 10)

    assert unsorted.gather(100, bits_of(10, range(10))) is None
    assert (0, []) == (unsorted.size, unsorted.blocks())

    unsorted.add(rows_of(*range(10, 20)), 10, 20)
    gathered = unsorted.gather(100, bits_of(20, range(15)))
    assert gathered is not None
    assert (0, 20, [*range(15, 20)]) == (gathered.first, gathered.end, arrivals_of(b"".join(gathered.blocks)))


def test_a_range_that_is_not_whole_is_never_claimed(due_scan: ModuleType) -> None:
    """
    Parts of the log are added in any order, and gathered now and then.  Each gathered range has all of its rows, and no
    row is lost.
    """
    for seed in range(60):
        random, unsorted = Random(seed), UnsortedRows(20)
        cuts = sorted({0, 900, *random.sample(range(900), 20)})
        parts = [*pairwise(cuts)]
        random.shuffle(parts)
        found: list[int] = []
        over = random.sample(range(900), 300)
        for first, end in parts:
            unsorted.add(rows_of(*range(first, end)), first, end)
            assert unsorted.overlaps(first, end)
            if random.random() < 0.2:
                gathered = unsorted.gather(random.choice((1, 100, 1_000)), bits_of(900, over))
                if gathered is not None:
                    arrivals = arrivals_of(b"".join(gathered.blocks))
                    assert [it for it in range(gathered.first, gathered.end) if it not in over] == arrivals
                    assert not unsorted.overlaps(gathered.first, gathered.end)
                    found += arrivals
        left = [it for it in arrivals_of(b"".join(unsorted.blocks())) if it not in over]
        assert sorted(found + left) == [it for it in range(900) if it not in over]
        assert unsorted.size == sum(map(len, unsorted.blocks()))

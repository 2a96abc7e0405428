"""Merges of runs."""

from random import Random
from types import ModuleType

import pytest

from tests.unit.timer.due_rows import bits_of, row
from tidemill.timer.due_merge import Merge
from tidemill.timer.due_row import DueRow, pack_rows
from tidemill.timer.due_run import HEAD_BYTES, UnwrittenRun, decode_run

Files = dict[str, bytes]


def id_of(arrival: int) -> bytes | None:
    return b"%16d" % arrival if arrival % 3 == 0 else None


def ids_of(rows: list[DueRow]) -> list[tuple[int, bytes]]:
    named = [(it.arrival, id_of(it.arrival)) for it in rows]
    return [(arrival, timer_id) for arrival, timer_id in named if timer_id is not None]


def files_of(*ranges: tuple[int, int, list[DueRow]]) -> Files:
    return {
        f"{at}": UnwrittenRun(f"{at}", first, end, [pack_rows(rows)], ids_of(rows), over=at).encode(at)
        for at, (first, end, rows) in enumerate(ranges)
    }


def merge_of(files: Files, over: list[int]) -> Merge:
    runs = [decode_run(name, data, chunk_rows=2).run for name, data in files.items()]
    return Merge("merged", runs, bits_of(1_000, over), 3, over=9, chunk_rows=2)


def merged(merge: Merge, files: Files) -> bytes:
    data = bytes(HEAD_BYTES)
    while merge.reads:
        assert len(data) == merge.position
        data += merge.supply([files[name][position : position + size] for name, position, size in merge.reads])
    return merge.head() + data[HEAD_BYTES:]


@pytest.mark.parametrize("seed", range(20))
def test_a_merge_has_the_rows_that_wait_and_their_ids(due_scan: ModuleType, seed: int) -> None:
    random = Random(seed)
    dues = [random.randrange(10) for _ in range(60)]
    over = random.sample(range(60), random.choice((0, 20, 60)))
    ranges = [(first, first + 20, [row(dues[it], it) for it in range(first, first + 20)]) for first in (0, 20, 40)]
    files = files_of(*ranges)

    merge = merge_of(files, over)
    read = decode_run("merged", merged(merge, files), chunk_rows=2)

    waits = [it for it in range(60) if it not in over]
    assert pack_rows(sorted(row(dues[it], it) for it in waits)) == read.rows
    assert [(it, id_of(it)) for it in waits if id_of(it)] == sorted(read.ids)
    assert (0, 60, 2, len(waits)) == (read.run.first, read.run.end, read.run.epoch, read.run.count)
    assert (read.run.fences, read.run.arrivals) == (merge.run.fences, merge.run.arrivals)


@pytest.mark.parametrize("bad", range(12))
def test_an_unreadable_run_ends_a_merge(due_scan: ModuleType, bad: int) -> None:
    """Its name is told, and there is no head, so that the file is no run."""
    files = files_of((0, 6, [row(1, it) for it in range(6)]), (6, 12, [row(2, it) for it in range(6, 12)]))
    merge = merge_of(files, [])
    name, at = f"{bad % 2}", HEAD_BYTES + 17 + 40 * (bad // 2)
    good, files[name] = files[name], files[name][:at] + b"-" + files[name][at + 1 :]

    with pytest.raises(AssertionError, match="not complete"):
        merged(merge, files)

    assert ([name], []) == (merge.unreadable, merge.reads)
    assert good != files[name]


def test_ids_that_cannot_be_read_end_a_merge(due_scan: ModuleType) -> None:
    files = files_of((0, 4, [row(1, it) for it in range(4)]), (4, 8, [row(2, it) for it in range(4, 8)]))
    merge = merge_of(files, [])
    files["1"] = files["1"][:-1]

    with pytest.raises(AssertionError, match="not complete"):
        merged(merge, files)

    assert ["1"] == merge.unreadable

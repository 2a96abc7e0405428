"""Files of sorted rows."""

from random import Random
from types import ModuleType

import pytest

from tests.unit.timer.due_rows import key, random_rows, row
from tidemill.timer.due_row import KEPT, KEY_BYTES, ROW_BYTES, DueRow, arrivals_of, pack_rows, unpack_rows
from tidemill.timer.due_run import HEAD_BYTES, MalformedRun, ReadRun, UnwrittenRun, decode_run, planned
from tidemill.timer.due_window import LAST_EDGE, NO_EDGE

IDS = {3: b"three".ljust(16), 4: b"four".ljust(16)}


def encoded(rows: list[DueRow], *, name: str = "0-9-1.due", first: int = 0, end: int = 9) -> bytes:
    ids = [(it.arrival, IDS[it.arrival]) for it in sorted(rows) if it.arrival in IDS]
    return UnwrittenRun(name, first, end, [pack_rows(rows)], ids, over=2).encode(7)


def run_of(rows: list[DueRow], name: str = "0-9-1.due", chunk_rows: int = 2) -> ReadRun:
    return decode_run(name, encoded(rows, name=name), chunk_rows=chunk_rows)


def test_a_run_has_these_bytes(due_scan: ModuleType) -> None:
    """The rows are in order, whatever order they had."""
    first, second = row(1_000, 4), row(1_000, 3, kept=5)

    data = encoded([first, second], first=KEPT | 2, end=KEPT | 9)

    range_of_it = "8000000000000002 8000000000000009"
    expected = f"544d4455 0001 35983043 0000000000000007 {range_of_it} 0000000000000002 00000002 00000002"
    ids = "0000000000000003" + IDS[3].hex() + "0000000000000004" + IDS[4].hex()
    assert bytes.fromhex(expected) + pack_rows([second, first]) + bytes.fromhex(ids) == data


def test_a_run_is_read_as_it_was_written(due_scan: ModuleType) -> None:
    rows = [row(due, arrival) for arrival, due in enumerate((50, 20, 20, 90, 10))]

    read = decode_run("0-9-1.due", encoded(rows))

    assert sorted(rows) == [*unpack_rows(read.rows)]
    assert [(3, IDS[3]), (4, IDS[4])] == sorted(read.ids)
    run = read.run
    assert ("0-9-1.due", 0, 9, 7, 5, range(5), False) == (
        run.name, run.first, run.end, run.epoch, run.count, run.arrivals, run.is_kept
    )  # fmt: skip


def test_any_damage_is_found(due_scan: ModuleType) -> None:
    """A cut, a longer file, and each changed byte make a run unreadable; the host then reads the log again."""
    data = encoded([row(1, 1), row(2, 3)])

    for damaged in [
        *(data[:at] for at in range(len(data))),
        *(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))),
        data + b"\0",
    ]:
        with pytest.raises(MalformedRun, match=r"0-9-1\.due"):
            decode_run("0-9-1.due", damaged)


@pytest.mark.parametrize("chunk_rows", [1, 2, 3, 100])
def test_a_damaged_chunk_is_found(due_scan: ModuleType, chunk_rows: int) -> None:
    """The CRCs of chunks are in memory, so a part of a run can be read and checked alone."""
    rows = [row(10 * it, it) for it in range(7)]
    data = encoded(rows)
    run = run_of(rows, chunk_rows=chunk_rows).run
    count = len(run.fences)
    for chunks in [range(first, end) for first in range(count) for end in range(first + 1, count + 1)]:
        name, position, size = run.read(chunks)
        assert "0-9-1.due" == name
        part = data[position : position + size]
        assert [*range(7)][chunks.start * chunk_rows : chunks.stop * chunk_rows] == arrivals_of(part)
        assert run.is_intact(chunks, part)
        for damaged in (None, b"", part[:-1], part + b"\0", part[:-1] + bytes([part[-1] ^ 1]), b"\1" + part[1:]):
            assert not run.is_intact(chunks, damaged)


def test_rows_may_come_in_parts_of_any_size(due_scan: ModuleType) -> None:
    """A merge adds rows round by round; what is known of the run is the same as if it had been written at once."""
    rows = [row(10 * it, it) for it in range(11)]
    whole = run_of(rows, chunk_rows=3).run
    parts = run_of([], chunk_rows=3).run

    for first, end in ((0, 1), (1, 1), (1, 4), (4, 5), (5, 11)):
        parts.append(pack_rows(rows[first:end]))

    assert whole.fences == parts.fences
    assert (11, whole.arrivals) == (parts.count, parts.arrivals)
    assert all(parts.is_intact(range(it, it + 1), pack_rows(rows[3 * it : 3 * it + 3])) for it in range(4))


def test_chunks_are_found_by_key(due_scan: ModuleType) -> None:
    """A chunk may have keys from an edge on if the next one begins with a greater key."""
    run = run_of([row(due, due) for due in (10, 20, 30, 40, 50)]).run

    edges = [NO_EDGE, key(10, 10), key(20, 20), key(30, 30), key(30, 31), key(50, 50), key(50, 51), LAST_EDGE]
    assert [0, 0, 0, 0, 1, 1, 3, 3] == [run.chunks_from(edge).start if run.chunks_from(edge) else 3 for edge in edges]


def test_a_run_without_rows_has_no_chunks(due_scan: ModuleType) -> None:
    run = run_of([]).run

    assert (0, [], range(0)) == (run.count, [*run.chunks_from(NO_EDGE)], run.arrivals)


@pytest.mark.parametrize("seed", range(40))
def test_all_rows_between_two_edges_are_in_the_planned_chunks(due_scan: ModuleType, seed: int) -> None:
    """Edge follows edge until the end: no row of any run is left out, and each round reads about what was asked for."""
    random = Random(seed)
    every = [random_rows(random, random.randrange(30), dues=5, arrivals=random.choice((2, 60))) for _ in range(4)]
    reads = [run_of(rows, f"{at}.due", chunk_rows=random.choice((1, 2, 5))) for at, rows in enumerate(every)]
    rows_of = {read.run.name: read.rows for read in reads}
    edge, found = NO_EDGE, list[bytes]()
    while edge != LAST_EDGE:
        chunks, next_edge = planned([read.run for read in reads], edge, 3)
        assert edge < next_edge
        for run, its_chunks in chunks:
            _, position, size = run.read(its_chunks)
            part = rows_of[run.name][position - HEAD_BYTES : position - HEAD_BYTES + size]
            rows = [part[at : at + ROW_BYTES] for at in range(0, size, ROW_BYTES)]
            found += [it for it in rows if edge <= it[:KEY_BYTES] < next_edge]
        edge = next_edge

    assert sorted(pack_rows([it]) for rows in every for it in rows) == sorted(found)

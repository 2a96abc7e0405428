"""The index by due time."""

from itertools import product
from random import Random
from types import ModuleType

import pytest

from tests.unit.timer.due_rows import key, row
from tests.unit.timer.index_host import EVERYTHING, TINY, IndexHost, step
from tidemill.timer.due_index import DueIndex, Sizes
from tidemill.timer.due_row import KEPT, ROW_BYTES, DueRow, arrivals_of, pack_rows, unpack_rows
from tidemill.timer.due_run import ReadRun, UnwrittenRun, decode_run
from tidemill.timer.due_window import LAST_EDGE
from tidemill.timer.waiting_set import TimerArrival, WaitingSet


@pytest.mark.parametrize("block", range(20))
def test_what_is_taken_equals_an_oracle(due_scan: ModuleType, block: int) -> None:
    """
    Whatever is done in whatever order, rows are taken in the order of (due, arrival), each once, the newest copy, and
    the wake-up is never late.
    """
    for seed in range(block * 10, block * 10 + 10):
        random, host = Random(seed), IndexHost()
        limit = 1_000
        for _ in range(150):
            limit += random.choice((0, 0, 0, 1, 5))
            step(host, random, limit)
            host.check()
        host.lead()
        expected = host.expected()
        assert expected == [(it.due_ms, it.arrival) for it in host.take_all(EVERYTHING)]


def host_with(*dues: int, leads: bool = True) -> IndexHost:
    host = IndexHost()
    host.lead() if leads else None
    host.arrive([*dues])
    return host


def flushed(host: IndexHost) -> list[ReadRun]:
    """Write all that can be written, and return the runs."""
    host.begin_flush()
    while host.unwritten:
        host.end_flush()
        host.begin_flush()
    return [decode_run(name, data) for name, data in host.files.items()]


def test_the_edge_divides_rows_of_one_due_time(due_scan: ModuleType) -> None:
    """
    Rule 11: no due time is rounded, and the edge is a pair.  Many rows with one due time come in order of their
    arrivals, through many refills, and so do rows that are added meanwhile.
    """
    host = host_with(*[500] * 30, leads=False)
    flushed(host)
    host.lead()
    found = []
    for _ in range(30):
        host.begin_refill()
        host.end_refill()
        found += host.take(500, 2)
        if len(found) == 10:
            host.arrive([500] * 30)

    assert [*range(60)] == [it.arrival for it in found]
    assert [] == host.take_all(499) == host.take_all(500)


def test_a_row_below_the_edge_changes_the_wake_up(due_scan: ModuleType) -> None:
    """Rule 12: a row that is due before all others is taken first, and the wake-up moves to it at once."""
    host = host_with(*range(100, 130), leads=False)
    flushed(host)
    host.lead()
    host.begin_refill()
    host.end_refill()
    assert 100 == host.index.next_due()

    host.arrive([90])
    assert 90 == host.index.next_due()
    host.arrive([95, 80, 99])
    assert 80 == host.index.next_due()

    assert [80, 90, 95, 99, 100] == [it.due_ms for it in host.take(100)]


def test_a_row_beyond_the_edge_changes_the_wake_up(due_scan: ModuleType) -> None:
    """Rule 12: also if the window is empty, and the row is before all others beyond the edge."""
    host = host_with(*range(100, 120), leads=False)
    flushed(host)
    host.lead()
    host.begin_refill()
    host.end_refill()
    host.cancel([*range(15)])
    late = host.index.next_due()
    assert late is not None and late <= 115

    host.cancel([*range(20)])
    host.take_all(1_000)
    host.arrive([700])
    host.arrive([600])

    due = host.index.next_due()
    assert due is not None and due <= 600
    assert [600, 700] == [it.due_ms for it in host.take_all(700)]


def test_a_row_that_is_added_while_a_refill_is_read_is_not_late(due_scan: ModuleType) -> None:
    """Rule 12: the rows between the old and the new edge that came meanwhile go to the heap."""
    host = host_with(*range(100, 130), leads=False)
    flushed(host)
    host.lead()
    host.begin_refill()
    host.arrive([101, 99, 300])
    host.end_refill()

    assert 99 == host.index.next_due()
    assert [99, 100, 101, 101] == [it.due_ms for it in host.take(101)]


def test_rows_that_are_due_soon_are_known_up_to_the_edge(due_scan: ModuleType) -> None:
    """Only those that wait, and nothing from a certain key on; a follower knows none."""
    host = host_with(*range(100, 130), leads=False)
    flushed(host)
    assert (b"", b"low") == host.index.upcoming(b"low", LAST_EDGE)
    host.lead()
    host.begin_refill()
    host.end_refill()
    edge = host.index.upcoming(b"", LAST_EDGE)[1]
    host.cancel([2])

    rows, end = host.index.upcoming(key(101, 0), LAST_EDGE)
    assert [it for it in range(1, 30) if it != 2 and key(100 + it, it) < edge] == arrivals_of(rows)
    assert edge == end < LAST_EDGE
    assert (b"", key(101, 1)) == host.index.upcoming(key(101, 1), key(101, 1))
    assert (b"", LAST_EDGE) == host.index.upcoming(LAST_EDGE, LAST_EDGE)


def test_a_run_has_every_row_of_its_range_that_waited(due_scan: ModuleType) -> None:
    """Rule 13: also those that are in the window, in the heap, taken, or were rescheduled."""
    host = host_with(*range(100, 130))
    host.take(104)
    host.arrive([1, 2, 3])
    host.cancel([10, 31])
    host.reschedule({11: 7})

    runs = flushed(host)

    assert [range(33)] == [range(runs[0].run.first, runs[-1].run.end)]
    for read in runs:
        waits = {it for it in range(read.run.first, read.run.end) if it not in (10, 31)}
        assert waits == {it.arrival for it in unpack_rows(read.rows)}
    host.restart()
    host.lead()
    assert sorted(host.due) == sorted(it.arrival for it in host.take_all(200))
    assert 7 == host.taken[11].due_ms


def test_a_damaged_run_is_rebuilt_from_the_log(due_scan: ModuleType) -> None:
    """Rule 14: its rows are read again, whether the damage is found at the start or when the run is read."""
    for restarts in (False, True):
        host = host_with(*range(100, 130), leads=False)
        flushed(host)
        ranges = {run.name: (run.first, run.end) for run in host.index.runs}
        bad, lost, *_ = ranges
        host.files[bad] = host.files[bad][:60] + b"\x55" + host.files[bad][61:]
        del host.files[lost]
        if restarts:
            host.restart()
        host.lead()

        assert [*range(30)] == [it.arrival for it in host.take_all(200)]
        assert {bad, lost}.isdisjoint(run.name for run in host.index.runs)


def test_the_ranges_of_damaged_runs_are_missing(due_scan: ModuleType) -> None:
    """Rule 14: the host learns which offsets to read, unless nothing of them waits or they are cut off the log."""
    host = host_with(*range(100, 118), leads=False)
    flushed(host)
    assert [(0, 6), (6, 12), (12, 18)] == [(run.first, run.end) for run in host.index.runs]
    host.cancel([*range(6, 12)])
    host.files.clear()
    waiting = WaitingSet.decode(host.waiting.encode())

    index = DueIndex(waiting, kept_end=3)
    assert [(0, 18), (KEPT, KEPT | 3)] == index.missing()
    index.rebuild(2, 5, b"")
    index.kept_start = 1
    assert [(0, 2), (5, 18), (KEPT | 1, KEPT | 3)] == index.missing()
    index.rebuild(12, 18, b"")
    index.arrivals_start = 5
    assert [(5, 12), (KEPT | 1, KEPT | 3)] == index.missing()
    index.arrivals_start = 6
    assert [(KEPT | 1, KEPT | 3)] == index.missing()


def test_a_run_that_ends_after_its_log_is_not_used(due_scan: ModuleType) -> None:
    """Rule 14: the log has been cut, or its last entries are not known to be committed yet."""
    host = host_with(*range(100, 106), leads=False)
    host.keep([0, 1])
    flushed(host)
    for arrivals, kept_end, is_used in ((6, 2, True), (5, 2, False), (6, 1, False)):
        waiting = WaitingSet()
        waiting.arrive(arrivals)
        index = DueIndex(waiting, kept_end)
        for name, data in host.files.items():
            index.restore(decode_run(name, data))

        assert (2 if is_used else 1) == len(index.runs)
        assert is_used == (index.missing() == []) == (index.removable() == [])


def test_a_stale_row_is_not_taken(due_scan: ModuleType) -> None:
    """Rule 14: the bits decide, and the new time of an arrival that was rescheduled."""
    host = host_with(*range(100, 106), leads=False)
    flushed(host)
    host.cancel([0, 1])
    host.reschedule({2: 50, 3: 500})
    host.lead()

    assert [(50, 2), (104, 4), (105, 5)] == [(it.due_ms, it.arrival) for it in host.take_all(499)]
    assert [3] == [it.arrival for it in host.take_all(500)]


def test_the_newest_copy_of_a_record_is_taken(due_scan: ModuleType) -> None:
    """Rule 16: wherever the copies are: in runs, in memory, below the edge or beyond it, and after a restart."""
    for flushes_first, leads, flushes_then, restarts in product((False, True), repeat=4):
        host = host_with(*range(100, 120), leads=leads)
        if flushes_first:
            flushed(host)
        if leads:
            host.begin_refill()
            host.end_refill()
        host.keep([1, 5, 19])
        host.keep([5])
        if flushes_then:
            flushed(host)
        if restarts:
            host.restart()
        if restarts or not leads:
            host.lead()

        kept = {it.arrival: it.offset & ~KEPT for it in host.take_all(200) if it.offset >= KEPT}
        assert {1: 0, 5: 3, 19: 2} == kept


def test_a_moved_record_is_not_taken_from_a_removed_segment(due_scan: ModuleType) -> None:
    """Rule 16: a row before the start of its log is skipped, even while the newer copy is not rebuilt yet."""
    host = host_with(*range(100, 110), leads=False)
    flushed(host)
    host.keep([0, 1, 2])
    host.restart()
    index = DueIndex(host.waiting, kept_end=3)
    index.arrivals_start = 3
    for name, data in host.files.items():
        index.restore(decode_run(name, data))
    index.lead()
    refill = index.wanted()
    assert refill is not None
    refill.supply([*map(host.read, refill.reads)])
    index.refilled(refill)
    assert [*range(3, 10)] == arrivals_of(index.take(200, 99, 999))

    index.rebuild(KEPT, KEPT | 3, pack_rows(host.kept))

    assert [0, 1, 2] == arrivals_of(index.take(200, 99, 999))


def test_a_taken_row_is_not_taken_from_its_newer_copy(due_scan: ModuleType) -> None:
    """Rule 4: a record that is moved while it is in flight stays in flight; put back, the newest copy is taken."""
    host = host_with(100, 101)
    host.take(100)
    host.keep([0])

    assert [] == host.take_all(100)
    host.put_back([0])
    assert [KEPT] == [it.offset for it in host.take_all(100)]


def test_a_rescheduled_row_can_be_taken_again(due_scan: ModuleType) -> None:
    """Even if it had been taken, and if it is due at the same time."""
    host = host_with(100, 101)
    host.take(101)
    host.reschedule({0: 100})
    host.reschedule({1: 50})

    assert [(50, 1), (100, 0)] == [(it.due_ms, it.arrival) for it in host.take_all(100)]


def test_rows_of_rescheduled_arrivals_are_bounded(due_scan: ModuleType) -> None:
    """Those that are over, or due at yet another time, are dropped from memory."""
    host = host_with(*[100] * 20, leads=False)
    for due in range(200, 400):
        host.reschedule({due % 20: due})
    host.cancel([*range(15)])
    host.reschedule({19: 1})

    assert len(host.index._rescheduled) < 60
    assert sum(map(len, host.index._rescheduled)) <= 45 * ROW_BYTES


def test_a_row_that_is_neither_new_nor_rescheduled_is_an_error(due_scan: ModuleType) -> None:
    """Its offsets are not covered by any range, so it would be lost at the next start."""
    host = host_with(100, 101)

    with pytest.raises(AssertionError, match="arrival 1 is not due at 101"):
        host.index.add(pack_rows([host.arrivals[1]]))


def test_the_window_is_bounded(due_scan: ModuleType) -> None:
    """When more rows are added below the edge, the edge moves down; the rows come later all the same."""
    host = host_with()
    assert 0 == len(host.expected())
    for due in range(1_000, 800, -1):
        host.arrive([due])
        assert len(host.index._window or ()) <= TINY.window_rows

    assert [*range(801, 1_001)] == [it.due_ms for it in host.take_all(1_000)]


def test_many_runs_are_merged(due_scan: ModuleType) -> None:
    """The oldest files can be removed, and the run that replaces them has their range."""
    host = host_with(leads=False)
    for first in range(0, 300, 5):
        host.arrive([*range(first, first + 5)])
        flushed(host)
        host.begin_merge()
        host.end_merge()
        host.remove_files()

    assert TINY.runs_max == len(host.index.runs) == len(host.files)
    assert [(0, 300)] == [(host.index.runs[0].first, host.index.runs[-1].end)]
    host.lead()
    assert [*range(300)] == [it.due_ms for it in host.take_all(300)]


def test_runs_of_which_nothing_waits_are_removed(due_scan: ModuleType) -> None:
    """Runs of the arrivals log and of kept records, also before the starts of their logs."""
    host = host_with(*range(100, 118), leads=False)
    flushed(host)
    assert [] == host.index.removable()
    host.cancel([*range(6, 12)])
    assert ["6-12-2.due"] == host.index.removable()
    host.keep([*range(6)])
    assert [] == host.index.removable()

    host.trim_logs()
    assert ["0-6-1.due"] == host.index.removable()
    flushed(host)
    host.cancel([*range(6)])
    assert ["0-6-4.due"] == host.index.removable()
    assert [(12, 18)] == [(run.first, run.end) for run in host.index.runs]


def test_no_file_is_removed_while_it_may_be_read(due_scan: ModuleType) -> None:
    host = host_with(*range(100, 118), leads=False)
    flushed(host)
    host.lead()
    host.begin_refill()
    assert host.refill is not None and host.refill.reads
    host.cancel([*range(18)])

    assert [] == host.index.removable()
    host.end_refill()
    assert 3 == len(host.index.removable())


def test_unsorted_bytes_are_those_that_can_be_flushed(due_scan: ModuleType) -> None:
    host = host_with(*range(100, 106), leads=False)
    host.keep([1, 2])
    assert 8 * ROW_BYTES == host.index.unsorted_bytes
    host.reschedule({1: 7})
    host.begin_flush()
    assert 2 * ROW_BYTES == host.index.unsorted_bytes

    host.end_flush(fails=True)
    assert 8 * ROW_BYTES == host.index.unsorted_bytes
    host.lead()
    assert 6 == len(host.take_all(200))
    host.begin_flush()
    host.end_flush()
    assert (2 * ROW_BYTES, 1) == (host.index.unsorted_bytes, len(host.index.runs))


def test_the_largest_log_is_flushed_first(due_scan: ModuleType) -> None:
    host = host_with(100, 101, leads=False)
    host.keep([0, 1])
    host.keep([1])

    assert [True, False] == [run.is_kept for run in (host.index.flush(), host.index.flush()) if run is not None]
    assert host.index.flush() is None


def test_a_follower_has_no_window(due_scan: ModuleType) -> None:
    """A refill that began before is ignored, and what was taken can be taken again."""
    host = host_with(*range(100, 130), leads=False)
    flushed(host)
    assert (None, None, b"") == (host.index.wanted(), host.index.next_due(), host.index.take(999, 9, 999))
    host.lead()
    host.begin_refill()
    refill = host.refill
    assert refill is not None
    host.follow()
    host.lead()
    host.arrive([1])

    refill.supply([*map(host.read, refill.reads)])
    host.index.refilled(refill)

    assert [1, *range(100, 130)] == [it.due_ms for it in host.take_all(200)]
    host.lead()
    assert 31 == len(host.take_all(200))


def test_a_new_leader_reads_more_at_once_while_rows_are_over(due_scan: ModuleType) -> None:
    """Most rows of old runs are over: the reads grow until rows that wait are found."""
    host = host_with(*range(1_000), leads=False)
    flushed(host)
    host.waiting.cancel(range(995))
    host.due = {it: it for it in range(995, 1_000)}
    host.lead()

    refills = 0
    while host.index.next_due() != 995:
        host.begin_refill()
        host.end_refill()
        refills += 1

    assert refills < 1_000 / TINY.refill_rows / 4
    assert [*range(995, 1_000)] == [it.due_ms for it in host.take_all(1_000)]


def test_few_rows_in_memory_need_no_job(due_scan: ModuleType) -> None:
    host = host_with(100, 101, 102, leads=False)
    host.lead()

    assert (0, None) == (host.index.next_due(), host.index.known_due)
    assert (None, 100, 100) == (host.index.wanted(), host.index.next_due(), host.index.known_due)


def test_the_ids_of_timers_are_in_runs(due_scan: ModuleType) -> None:
    """A replica restores them without reading the arrivals."""
    waiting = WaitingSet()
    index = DueIndex(waiting)
    waiting.arrive(3, [TimerArrival(0, 5, b"a" * 16), TimerArrival(2, 7, b"b" * 16)])
    waiting.cancel([0])
    index.add(pack_rows([row(5 + it, it) for it in range(3)]))

    run = index.flush()

    assert run is not None
    assert [(2, b"b" * 16)] == decode_run(run.name, run.encode(0)).ids


def test_names_of_runs_are_never_used_again(due_scan: ModuleType) -> None:
    """Not even after a restart: a removal that comes late would remove a new file."""
    host = host_with(*range(100, 106), leads=False)
    names = {read.run.name for read in flushed(host)}
    host.restart()
    host.files.clear()
    host.lead()
    host.take_all(100)

    assert names.isdisjoint(read.run.name for read in flushed(host))


def test_runs_are_merged_only_if_they_have_the_whole_range(due_scan: ModuleType) -> None:
    """
    Rule 13: a merged run claims its range at the next start, so a run between its parts must not be missing, nor its
    rows be in memory only.
    """
    host = host_with(*range(100, 154), leads=False)
    reads = flushed(host)
    index = DueIndex(host.waiting, sizes=TINY)
    for read in reads[::2]:
        index.restore(read)
    assert [(6, 12), (18, 24), (30, 36), (42, 48)] == index.missing()
    assert 5 == len(index.runs) > TINY.runs_max
    assert index.merge() is None

    index.rebuild(18, 24, pack_rows(host.arrivals[18:24]))
    assert index.merge() is None
    run = index.flush()
    assert run is not None and index.merge() is None
    run.encode(0)
    index.flushed(run)
    merge = index.merge()
    assert merge is not None and 18 in (merge.runs[0].first, merge.runs[1].first)


def test_runs_are_merged_over_a_range_of_which_nothing_waits(due_scan: ModuleType) -> None:
    """A removed run leaves such a gap."""
    host = host_with(*range(100, 154), leads=False)
    flushed(host)
    host.cancel([*range(6, 12), *range(18, 24), *range(30, 36), *range(42, 48)])
    host.remove_files()

    host.begin_merge()

    assert host.merge is not None
    assert 18 == host.merge.run.end - host.merge.run.first


def test_files_that_are_merged_are_not_removed(due_scan: ModuleType) -> None:
    """They are needed until the merge has ended, even if nothing of them waits any more."""
    host = host_with(*range(100, 124), leads=False)
    flushed(host)
    host.begin_merge()
    assert host.merge is not None
    merging = {run.name for run in host.merge.runs}
    host.cancel([*range(24)])
    assert merging.isdisjoint(host.index.removable())

    host.end_merge()

    assert merging < {*host.index.removable()}
    assert [] == [*host.index.runs]


def test_records_without_rows_are_covered(due_scan: ModuleType) -> None:
    """Kept records of arrivals that are over are not read again at the next start."""
    host = host_with(100, 101, 102, leads=False)
    host.cancel([0])
    host.keep([0, 1])
    host.keep([0, 2])
    host.keep([0])
    flushed(host)
    assert [KEPT] == [run.first for run in host.index.runs if run.is_kept]

    index = DueIndex(host.waiting, kept_end=5)
    for name, data in host.files.items():
        index.restore(decode_run(name, data))

    assert [(KEPT | 4, KEPT | 5)] == index.missing()


def test_the_window_is_not_trimmed_while_a_refill_is_read(due_scan: ModuleType) -> None:
    """It may exceed its bound meanwhile, because the refill begins where its edge is."""
    host = host_with(*range(100, 130), leads=False)
    flushed(host)
    host.cancel([*range(4, 30)])
    host.lead()
    host.begin_refill()
    host.end_refill()
    assert [100, 101] == [it.due_ms for it in host.take(101)]
    host.begin_refill()
    assert host.refill is not None
    host.arrive([*range(50, 50 + TINY.window_rows - 1)])
    host.end_refill()

    assert [*range(50, 50 + TINY.window_rows - 1), 102, 103] == [it.due_ms for it in host.take_all(200)]


ID = b"a timer of this topic hashed"[:16]


def unwritten_of(waiting: WaitingSet) -> UnwrittenRun:
    """Return a run of all records that wait."""
    index = DueIndex(WaitingSet())
    index._waiting = waiting
    index.add(pack_rows([DueRow(100 + number, number, number) for number in range(waiting.end)]))
    run = index.flush()
    assert run is not None
    return run


def test_a_run_has_the_ids_of_its_rows_although_some_are_over_before_it_is_written() -> None:
    waiting = WaitingSet()
    waiting.arrive(2, [TimerArrival(0, 100, ID)])
    run = unwritten_of(waiting)
    waiting.cancel([0])
    read = decode_run(run.name, run.encode(epoch=1))

    assert [(0, ID)] == read.ids
    assert [0, 1] == arrivals_of(read.rows)


def test_a_run_is_not_used_with_a_state_from_before_what_it_lacks_was_over() -> None:
    """
    A broker has written a run after the state that it finds when it starts again: the change that ends a record, maybe
    by its id, is applied once more.
    """
    earlier, waiting = WaitingSet(), WaitingSet()
    for it in (earlier, waiting):
        it.arrive(2, [TimerArrival(0, 100, ID)])
    waiting.cancel([0])
    run = unwritten_of(waiting)
    read = decode_run(run.name, run.encode(epoch=1))
    index, index_of_earlier = DueIndex(waiting), DueIndex(earlier)
    for it in (index, index_of_earlier):
        it.restore(read)

    assert ([], []) == (index.missing(), index.removable())
    assert ([(0, 2)], [run.name]) == (index_of_earlier.missing(), index_of_earlier.removable())


def test_a_merged_run_says_how_many_arrivals_were_over_when_it_was_made() -> None:
    waiting = WaitingSet()
    index = DueIndex(waiting, sizes=Sizes(run_rows=1, runs_max=1, merge_runs=2))
    for number in range(2):
        waiting.arrive(1)
        index.add(pack_rows([DueRow(100 + number, number, number)]))
        run = index.flush()
        assert run is not None
        run.encode(epoch=1)
        index.flushed(run)
    waiting.cancel([0])
    merge = index.merge()

    assert merge is not None
    assert (1, {0}) == (merge.run.over, {run.over for run in merge.runs})


def test_a_run_that_is_read_twice_is_kept() -> None:
    """
    Also one whose file is being written: a restore that failed begins again, and finds files that it has written.
    """
    waiting = WaitingSet()
    waiting.arrive(2)
    run = unwritten_of(waiting)
    read = decode_run(run.name, run.encode(epoch=1))
    index = DueIndex(waiting)
    for _ in range(2):
        index.restore(read)

    assert ([], [run.name]) == (index.removable(), [it.name for it in index.runs])

    index = DueIndex(waiting)
    index.rebuild(0, 2, read.rows)
    written = index.flush()
    assert written is not None
    read = decode_run(written.name, written.encode(epoch=1))
    index.restore(read)
    index.flushed(written)

    assert ([], [written.name]) == (index.removable(), [it.name for it in index.runs])


def test_nothing_is_missing_when_nothing_waits() -> None:
    waiting = WaitingSet()
    waiting.arrive(2)
    index = DueIndex(waiting, kept_end=3)

    assert [(0, 2), (KEPT, KEPT | 3)] == index.missing()

    waiting.cancel([0, 1])

    assert [] == index.missing()

"""What a replica knows of one timer partition."""

import pytest

from tidemill.timer import timer_partition
from tidemill.timer.due_row import KEPT, DueRow, pack_rows, unpack_rows
from tidemill.timer.due_run import decode_run
from tidemill.timer.timer_changes import Arrived, Change, Decided, Released, Relocated
from tidemill.timer.timer_command import Cancel, CancelIds, Recur, Reschedule, RescheduleIds
from tidemill.timer.timer_partition import TimerPartition
from tidemill.timer.waiting_bits import CHUNK
from tidemill.timer.waiting_set import TimerArrival

ID = b"a timer of this topic hashed"[:16]


def test_a_run_that_is_written_while_a_replica_is_restored_has_the_ids_of_its_rows() -> None:
    """Otherwise a later start would read the run, and not know the ids."""
    rows = pack_rows([DueRow(100, 0, 0), DueRow(101, 1, 1)])
    before = TimerPartition()
    before.appended(1, Arrived(rows, [TimerArrival(1, 101, ID)]))
    before.committed(1)
    restored = TimerPartition.load(before.save(1))
    restored.restore_range(0, 2, rows, [(1, ID)])
    run = restored.index.flush()
    assert run is not None
    read = decode_run(run.name, run.encode(epoch=1))
    assert restored.apply_deferred(1)

    assert [(1, ID)] == read.ids
    assert 1 == restored.waiting.arrival_of(ID)


def test_a_run_that_is_newer_than_the_state_says_nothing_of_records_that_are_moved_later() -> None:
    """Otherwise a record would be rescheduled at an offset of the kept log that has not been reached."""
    before = TimerPartition()
    arrivals = pack_rows([DueRow(100, it, it) for it in range(3)])
    moved = Relocated(pack_rows([DueRow(100, 2, KEPT), DueRow(500, 1, KEPT | 1)]))
    before.appended(1, Arrived(arrivals))
    before.committed(1)
    saved = before.save(1)
    later = (2, Decided(Reschedule(0, {1: 500}))), (3, moved)
    for index, change in later:
        before.appended(index, change)
        before.committed(index)
    runs = before.index.flush(), before.index.flush()

    restored = TimerPartition.load(saved)
    for run in runs:
        assert run is not None
        restored.restore_run(decode_run(run.name, run.encode(epoch=1)))
    for index, change in later:
        restored.appended(index, change)
        restored.committed(index)
    assert restored.apply_deferred(10)

    assert [None, 1, 0] == [restored.kept_offset(it) for it in range(3)]
    assert 2 == restored.kept.end
    assert [] == restored.index.missing()


def test_a_record_whose_time_changes_before_its_copy_commits_is_found_in_the_kept_log() -> None:
    """The copy says the old time; the row with the new one must not name the segment that is about to be removed."""
    timers = TimerPartition()
    changes = (
        Arrived(pack_rows([DueRow(100, 0, 0)])),
        Decided(Reschedule(0, {0: 500})),
        Relocated(pack_rows([DueRow(100, 0, KEPT)])),
    )
    for index, change in enumerate(changes):
        timers.appended(index, change)
    for index in range(len(changes)):
        timers.committed(index)
    timers.index.arrivals_start = timers.first_needed()
    timers.index.lead()
    assert timers.index.wanted() is None

    taken = timers.index.take(1_000, 10, 1 << 20)

    assert 1 == timers.index.arrivals_start
    assert [(500, 0, KEPT)] == [row[:3] for row in unpack_rows(taken)]


def test_deferred_changes_are_applied_in_parts_and_in_order() -> None:
    """A replica that was restored for long has many of them, and other partitions must be served meanwhile."""
    before = TimerPartition()
    before.appended(1, Arrived(pack_rows([DueRow(100, 0, 0)])))
    before.committed(1)
    restored = TimerPartition.load(before.save(1))
    restored.restore_range(0, 1, pack_rows([DueRow(100, 0, 0)]), [])
    for index, first in ((2, 1), (3, 4)):
        rows = pack_rows([DueRow(100, it, it) for it in range(first, first + 3)])
        restored.appended(index, Arrived(rows))
        restored.committed(index)
    restored.appended(4, Released([1, 2, 4], 100))
    restored.committed(4)
    steps = [(restored.apply_deferred(3), restored.waiting.end, restored.waiting.count) for _ in range(2)]
    last_of_all = 5, Arrived(pack_rows([DueRow(100, 7, 7)]))
    restored.appended(*last_of_all)
    restored.committed(5)  # in the meantime: it is applied after those that were deferred before
    steps += [(restored.apply_deferred(3), restored.waiting.end, restored.waiting.count) for _ in range(2)]

    assert [(False, 4, 4), (False, 7, 7), (False, 7, 4), (True, 8, 5)] == steps
    assert [0, 3, 5, 6, 7] == [*restored.waiting.numbers()]


def test_the_saved_state_has_the_changes_up_to_an_entry() -> None:
    """
    A start appends the later entries again.  If the state had them too, their records would be there twice, so the
    records behind them would have wrong numbers.
    """
    before = TimerPartition()
    for index in range(3):
        before.appended(index, Arrived(pack_rows([DueRow(100 + index, index, index)])))

    restored = TimerPartition.load(before.save(1))
    restored.appended(2, Arrived(pack_rows([DueRow(102, 2, 2)])))
    for index in range(3):
        restored.committed(index)

    assert [0, 1, 2] == [*restored.waiting.numbers()]
    assert 3 == restored.waiting.end


def _arrived(count: int) -> TimerPartition:
    timers = TimerPartition()
    timers.waiting.arrive(count)
    return timers


def test_the_first_needed_arrival_waits_and_was_not_moved() -> None:
    """It is found by whole chunks; positions at their borders count."""
    for first in (0, 1, 8, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 3):
        timers = _arrived(2 * CHUNK + 3)
        moved = [number for number in range(first) if number % 3 == 0]
        timers.waiting.release(number for number in range(first) if number % 3)
        timers.kept.add(moved)

        assert first == timers.first_needed()


def test_a_search_for_the_first_needed_arrival_begins_at_the_start_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing before it is in the log.  A record that was moved long ago would let the search begin there."""
    monkeypatch.setattr(timer_partition, "SEARCHED_CHUNKS_MAX", 1)
    timers = _arrived(4 * CHUNK)
    timers.kept.add([0])
    timers.waiting.release(range(1, 4 * CHUNK - 1))

    assert 4 * CHUNK - 1 == timers.first_needed(log_start=3 * CHUNK + 1)


def test_a_long_search_for_the_first_needed_arrival_goes_on_in_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick, which calls it, must not keep the event loop."""
    monkeypatch.setattr(timer_partition, "SEARCHED_CHUNKS_MAX", 2)
    timers = _arrived(5 * CHUNK)
    timers.kept.add([0])
    timers.waiting.release(range(1, 5 * CHUNK))

    assert [2 * CHUNK, 4 * CHUNK, 5 * CHUNK, 5 * CHUNK] == [timers.first_needed() for _ in range(4)]


def test_schedules_count_from_their_append_on() -> None:
    """
    Those of entries that are truncated do not count any more, those that wait to be applied do, and one that replaces
    another counts with it.
    """
    other = b"another timer of the topic"[:16]
    rows = pack_rows([DueRow(100, 0, 0)])
    arrived = [Arrived(rows, [TimerArrival(0, 100, it, is_recurring=True)]) for it in (ID, ID, other)]
    timers = TimerPartition()
    for index, change in enumerate(arrived):
        timers.appended(index, change)
    counts = [timers.schedule_count]
    timers.truncated(2)
    counts.append(timers.schedule_count)
    timers.committed(0)
    counts.append(timers.schedule_count)
    restored = TimerPartition.load(timers.save(1))
    restored.restore_range(0, 1, rows, [(0, ID)])
    restored.committed(1)
    restored.appended(2, arrived[2])
    restored.committed(2)
    counts.append(restored.schedule_count)
    assert restored.apply_deferred(10)
    counts.append(restored.schedule_count)

    assert [2, 1, 1, 2, 2] == counts
    assert [True, True] == [restored.has_schedule(it) for it in (ID, other)]
    assert [1, 2] == [*restored.waiting.recurring]


@pytest.mark.parametrize(
    "change",
    [
        Decided(Cancel(0, [0])),
        Decided(CancelIds(0, [ID])),
        Decided(Reschedule(0, {0: 500})),
        Decided(RescheduleIds(0, {ID: 500})),
        Decided(Recur(0, 0, 100, 500)),
        Arrived(pack_rows([DueRow(500, 1, 1)]), [TimerArrival(0, 500, ID)]),
    ],
    ids=["cancel", "cancel of an id", "new time", "new time of an id", "next occurrence", "replacement"],
)
def test_a_record_is_held_until_no_change_of_the_log_names_it(change: Change) -> None:
    """A change that is truncated never commits: if the record were held for ever, it would never be released."""
    timers = TimerPartition()
    timers.appended(1, Arrived(pack_rows([DueRow(100, 0, 0)]), [TimerArrival(0, 100, ID)]))
    timers.committed(1)
    held = [timers.is_held(0)]
    for index in (2, 3):
        timers.appended(index, change)
    held.append(timers.is_held(0))
    for from_index in (3, 2):
        timers.truncated(from_index)
        held.append(timers.is_held(0))

    assert [False, True, True, False] == held
    assert not timers.holds_any

"""What a replica knows of one timer partition."""

import pytest

from tidemill.timer import timer_partition
from tidemill.timer.due_row import DueRow, pack_rows
from tidemill.timer.due_run import decode_run
from tidemill.timer.timer_changes import Arrived
from tidemill.timer.timer_partition import TimerPartition
from tidemill.timer.waiting_bits import CHUNK
from tidemill.timer.waiting_set import Arrival

ID = b"a timer of this topic hashed"[:16]


def test_a_run_that_is_written_while_a_replica_is_restored_has_the_ids_of_its_rows() -> None:
    """Otherwise a later start would read the run, and not know the ids."""
    rows = pack_rows([DueRow(100, 0, 0), DueRow(101, 1, 1)])
    before = TimerPartition()
    before.appended(1, Arrived([Arrival(100), Arrival(101, ID)], rows))
    before.committed(1)
    restored = TimerPartition.load(before.save(1))
    restored.restore_range(0, 2, rows, [(1, ID)])
    run = restored.index.flush()
    assert run is not None
    read = decode_run(run.name, run.encode(epoch=1))
    restored.restored()

    assert [(1, ID)] == read.ids
    assert 1 == restored.waiting.arrival_of(ID)


def _arrived(count: int) -> TimerPartition:
    timers = TimerPartition()
    timers.waiting.arrive([Arrival(100)] * count)
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

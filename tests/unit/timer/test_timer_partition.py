"""What a replica knows of one timer partition."""

from tidemill.timer.due_row import DueRow, pack_rows
from tidemill.timer.due_run import decode_run
from tidemill.timer.timer_changes import Arrived
from tidemill.timer.timer_partition import TimerPartition
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

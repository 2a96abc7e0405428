"""Which rows leave the queue first when the ring has little room."""

from types import SimpleNamespace
from typing import Any

from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.raft.entry import BATCH, COMMAND, Command, Entry
from tidemill.storage.journal.journal_block import PAGE_BYTES
from tidemill.storage.journal.row_queue import RowQueue
from tidemill.storage.journal.shard_log import vote_row

HOT, COLD = ShardId(7), ShardId(8)
MIB = 1 << 20


def ring(free: int) -> Any:
    """Return a ring of 16 MiB with `free` bytes; an eighth of the ring is the reserve."""
    return SimpleNamespace(capacity=16 * MIB, free=free, free_for_entries=free - 2 * MIB)


def batch(index: int, size: int = 100_000) -> Entry:
    return Entry(BATCH, bytes(size), index=index, term=1)


def log_start(index: int) -> Entry:
    return Entry(COMMAND, bytes((Command.LOG_START,)) + bytes(20), index=index, term=1)


def indexes(taken: list[tuple[ShardId, Entry]]) -> list[tuple[ShardId, int]]:
    return [(shard_id, row.index) for shard_id, row in taken]


def test_rows_that_free_space_pass_rows_without_room() -> None:
    """
    A log start frees files, and metadata rows delete topics.  If they waited after a batch of another shard, that batch
    would wait for space that only they can free.
    """
    queue = RowQueue()
    queue.put(HOT, [batch(1), log_start(2)])
    queue.put(COLD, [log_start(5), batch(6), log_start(7)])
    queue.put(METADATA_SHARD, [batch(9, 200), batch(10, 200)])

    taken = queue.take(ring(2 * MIB), MIB)

    assert [(COLD, 5), (METADATA_SHARD, 9), (METADATA_SHARD, 10)] == indexes(taken)
    assert [(HOT, 1), (HOT, 2), (COLD, 6), (COLD, 7)] == indexes(queue.entries)


def test_passed_rows_are_checked_again_when_there_is_room() -> None:
    """
    Rows that wait for room are checked again only when there is new room, so a long queue costs no time while the
    ring is full.
    """
    queue = RowQueue()
    queue.put(HOT, [batch(1), log_start(2)])
    full, roomy = ring(2 * MIB), ring(8 * MIB)
    first = queue.take(full, MIB)
    queue.put(COLD, [log_start(5)])
    second = queue.take(full, MIB)
    queue.put(HOT, [log_start(3)])
    third = queue.take(full, MIB)

    everything = queue.take(roomy, MIB)

    assert ([], [(COLD, 5)], []) == (indexes(first), indexes(second), indexes(third))
    assert [(HOT, 1), (HOT, 2), (HOT, 3)] == indexes(everything)
    assert 0 == queue.bytes


def test_the_rest_of_the_reserve_is_left_to_votes() -> None:
    """
    The part of the reserve that other rows may not use is kept for votes: a majority may need the very replica that
    could not write its vote.
    """
    queue = RowQueue()
    queue.put(HOT, [batch(1)])
    queue.put(METADATA_SHARD, [batch(9, 10_000)])

    assert [] == queue.take(ring(3 * MIB // 2), MIB)


def test_single_log_starts_leave_room_for_votes() -> None:
    """Log starts leave room for votes.  Each log start takes a page, and its trim takes another."""
    queue, free, index = RowQueue(), 2 * MIB, 1
    queue.put(HOT, [log_start(index)])
    while queue.take(ring(free), MIB):
        index += 1
        free -= 2 * PAGE_BYTES
        queue.put(HOT, [log_start(index)])

    queue.put_control_row(COLD, vote_row(5, None))

    assert index > 10
    assert free > MIB // 2
    assert [COLD] == [shard_id for shard_id, _ in queue.take(ring(free), MIB)]

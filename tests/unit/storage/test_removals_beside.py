"""The write-back and background threads may remove the same file, or one may create a file in a directory that the
other removes. Neither may fail, because an error on either thread would stop the broker.
"""

from collections.abc import Callable
from typing import Any

from tests.unit.storage.conftest import SHARD
from tidemill.batches.builder import build_batch
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, Entry

Make = Callable[..., Any]


def written(hand: Any) -> tuple[list[Callable[[], None]], Any]:
    """Write a block, then prepare the removals that follow it.  Return the removals and the write-back."""
    store = hand.store
    block = store.gather()
    block.write(store.journal)
    store.written(block)
    steps, write_back = store.removal_steps(), store.next_write_back(0)
    assert steps and write_back is not None
    return steps, write_back


def cut_and_closed(make_hand: Make) -> tuple[Any, str, list[Callable[[], None]], Any]:
    """Close the shard while files of a truncation have yet to be removed."""
    hand = make_hand(segment_bytes=1_900, index_interval=300)
    hand.append(5)
    hand.commit()
    hand.write_all()
    tail = hand.append(40)
    hand.write_all()
    hand.store.truncate(hand.shard, tail[0].index)
    directory = hand.log.directory
    hand.store.close_shard(SHARD)
    return hand, directory, *written(hand)


def execute(steps: list[Callable[[], None]]) -> None:
    for step in steps:
        step()


def once(hand: Any, call: str, then: Callable[[], None], when: Callable[[Any, Any], bool]) -> None:
    """Run `then`, the other thread's work, after the disk's first `call` for which `when` is true."""
    real = getattr(hand.disk, call)

    def hooked(path: str, *more: Any, **named: Any) -> Any:
        found = real(path, *more, **named)
        if when(path, found):
            setattr(hand.disk, call, real)
            then()
        return found

    setattr(hand.disk, call, hooked)


def test_a_shard_is_removed_while_its_truncated_files_are(make_hand: Make) -> None:
    """The background thread removes the shard while the write-back removes the truncated files."""
    hand, directory, steps, write_back = cut_and_closed(make_hand)
    once(hand, "remove", lambda: execute(steps), lambda path, _: True)

    write_back.execute(hand.disk)

    assert not hand.disk.exists(directory)


def test_truncated_files_are_removed_while_their_shard_is(make_hand: Make) -> None:
    """The write-back removes the truncated files while the background thread removes the shard."""
    hand, directory, steps, write_back = cut_and_closed(make_hand)
    once(hand, "list", lambda: write_back.execute(hand.disk), lambda _, found: bool(found))

    execute(steps)

    assert not hand.disk.exists(directory)


def test_a_shard_is_removed_while_another_of_its_topic_gets_its_first_batch(make_hand: Make) -> None:
    """The topic's directory is empty and about to be removed when the batch creates its file there."""
    hand = make_hand()
    hand.append(5)
    hand.commit()
    hand.write_all()
    other = hand.open_shard(ShardId(2), first=2, count=1)
    hand.write_all()
    gone = hand.log.directory
    hand.store.close_shard(SHARD)
    batch = build_batch([(None, b"v", (), 1_000)], base_offset=0, leader_epoch=1)
    entry = Entry(BATCH, batch, partition=2, record_count=1, append_time=1_000, index=other.last_index + 1, term=1)
    hand.store.append(other, [entry])
    steps, write_back = written(hand)
    once(hand, "remove_directory", lambda: write_back.execute(hand.disk), lambda path, _: path == gone)

    execute(steps)

    assert (False, True) == (hand.disk.exists(gone), hand.disk.exists(other.partitions[2].segments[0].path))

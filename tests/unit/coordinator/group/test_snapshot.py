"""A snapshot makes all records before its first record unnecessary."""

from tests.unit.coordinator.group.group_world import FLIGHTS_ID, World
from tidemill.coordinator.group.requests import CommitOffsets, OffsetToCommit


def append(world, records):
    for record in records:
        world.log.append(record)
        world.groups.replay(*record)


def busy_world():
    world = World()
    world.stable(2)
    for index in range(5):
        offsets = tuple(
            OffsetToCommit(topic="flights", topic_id=FLIGHTS_ID, partition=partition, offset=index)
            for partition in range(7)
        )
        world.ask(CommitOffsets(waiter=world.waiter(), group_id=f"simple {index}", offsets=offsets))
    return world


def test_the_log_from_the_snapshot_on_restores_the_whole_state():
    """Replaying the log from a snapshot's first record restores the whole state, so the log may start there."""
    world = busy_world()
    first_offset = len(world.log)

    chunks = world.groups.snapshot_chunks(records_max=4)
    sizes = []
    for chunk in chunks:
        sizes.append(len(chunk))
        append(world, chunk)
    append(world, [chunks.end_record(first_offset, world.now_ms)])
    whole = world.replayed()
    del world.log[:first_offset]

    assert world.replayed()._state == whole._state
    assert (sum(sizes), max(sizes)) == (36, 4)


def test_changes_between_chunks_are_not_lost():
    """Commits, deletions and new groups may be logged before or after the chunk that contains the state they change."""
    world = busy_world()
    first_offset = len(world.log)
    chunks = world.groups.snapshot_chunks(records_max=3)

    for step, chunk in enumerate(chunks):
        append(world, chunk)
        world.commit(f"simple {step % 5}", offset=1_000 + step, partition=step % 9)
        if step in (2, 6):
            world.delete(f"simple {step % 4}")
        world.commit(f"new {step}")
    append(world, [chunks.end_record(first_offset, world.now_ms)])
    whole = world.replayed()
    del world.log[:first_offset]

    assert world.replayed()._state == whole._state


def test_the_end_record_tells_later_leaders_where_the_log_may_start():
    """
    A later leader learns from a snapshot's end record where the log may start.  It ignores a snapshot without an end
    record, whose leader lost leadership before completing it.
    """
    world = busy_world()
    chunks = world.groups.snapshot_chunks()
    for chunk in chunks:
        append(world, chunk)
    before = world.replayed().snapshot_end

    append(world, [chunks.end_record(6, world.now_ms)])
    after = world.replayed().snapshot_end

    assert before is None
    assert (after.first_offset, after.record_count, after.written_at_ms) == (6, 36, world.now_ms)


def test_the_snapshot_of_an_empty_partition_has_no_chunks():
    """With the end record alone, the log of a partition without groups can still be trimmed."""
    world = World()

    chunks = world.groups.snapshot_chunks()

    assert list(chunks) == []
    assert chunks.record_count == 0


def test_state_deleted_before_its_chunk_is_not_written():
    """
    State that is deleted before its chunk is written is left out of the snapshot: a record written after the tombstone
    would restore it.
    """
    world = busy_world()
    chunks = world.groups.snapshot_chunks(records_max=3)
    first = next(chunks)  # the group with members, and two of the seven offsets of the next group

    world.delete(*(f"simple {index}" for index in range(5)))

    assert len(first) == 3
    assert list(chunks) == []

"""DeleteRecords moves the log start, and is answered once the move has committed."""

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.wire.messages import list_offsets
from tidemill.wire.messages.delete_records import Request


def request(offset: int, name: str = "flights", number: int = 0) -> Request:
    partition = Request.Topic.Partition(partition_index=number, offset=offset)
    return Request(topics=[Request.Topic(name=name, partitions=[partition])], timeout_ms=1_000)


def deleted(world: BrokerWorld, offset: int, name: str = "flights", number: int = 0) -> tuple[int, int]:
    (answer,) = world.ask(request(offset, name, number)).topics[0].partitions
    return answer.error_code, answer.low_watermark


def earliest(world: BrokerWorld) -> int:
    partition = list_offsets.Request.Topic.Partition(partition_index=0, timestamp=-2)
    topic = list_offsets.Request.Topic(name="flights", partitions=[partition])
    answer = world.ask(list_offsets.Request(replica_id=-1, isolation_level=0, topics=[topic]))
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def world_with_records() -> BrokerWorld:
    world = BrokerWorld()
    world.create("flights")
    for value in (b"a", b"b", b"c", b"d"):
        world.produce("flights", value)
    return world


def test_the_log_start_moves_and_stays_after_a_kill() -> None:
    """
    The response contains the new log start as the low watermark, and deleted records do not come back after a kill.
    """
    world = world_with_records()

    answered = deleted(world, 2)

    assert ((errors.NONE, 2), 2, 2) == (answered, earliest(world), earliest(world.restarted()))


def test_minus_one_is_the_high_watermark() -> None:
    """
    A request with offset -1 deletes all records up to the high watermark, and the next record still gets the next
    offset.
    """
    world = world_with_records()

    answered = deleted(world, -1)

    assert ((errors.NONE, 4), 4) == (answered, world.produce("flights", b"e").base_offset)
    assert (4, 5) == (earliest(world.restarted()), world.restarted().partition("flights").high_watermark)


def test_the_log_start_never_goes_back() -> None:
    """
    If the requested offset is below the log start, the response contains the current log start.
    """
    world = world_with_records()
    deleted(world, 3)

    answered = deleted(world, 1)

    assert (errors.NONE, 3) == answered


def test_impossible_deletions_are_refused() -> None:
    """
    DeleteRecords refuses offsets above the high watermark or below -1, internal topics, and partitions that do not
    exist.
    """
    world = world_with_records()

    codes = [deleted(world, *asked)[0] for asked in ((5,), (-2,), (0, METADATA_TOPIC), (0, "tides"), (0, "flights", 1))]

    assert [
        errors.OFFSET_OUT_OF_RANGE,
        errors.OFFSET_OUT_OF_RANGE,
        errors.INVALID_TOPIC_EXCEPTION,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
    ] == codes


def test_on_a_full_disk_only_deletions_that_free_a_segment_are_accepted() -> None:
    """
    While the disk is full, a deletion is accepted only if it frees a segment.  Others would use up the journal space
    that is reserved for rows that free files.
    """
    world = world_with_records()
    deleted(world, 1)
    world.disk.free_bytes = 1 << 20
    world.pass_time(1_000)

    answers = [deleted(world, offset) for offset in (1, 2, -1)]

    assert [(errors.NONE, 1), (errors.KAFKA_STORAGE_ERROR, -1), (errors.NONE, 4)] == answers


def test_the_response_waits_for_the_commit() -> None:
    """
    No response is sent before the log-start row is in the journal.
    """
    world = world_with_records()

    api, version = world.client.send(request(2))

    assert world.client.answer(api, version) is None
    world.stabilize()
    assert world.client.answer(api, version) is not None


def test_files_of_deleted_records_are_removed_after_a_crash_before_the_trimmed_row() -> None:
    """
    A crash may leave a checkpoint that already has the new log start, but no TRIMMED row: the next leader writes that
    row.
    """
    world = BrokerWorld()
    world.create("flights", segment_bytes="1048576")
    for _ in range(3):
        world.produce("flights", b"x" * 600_000)
    log = world.partition("flights").log
    assert 3 == len(log.segments)
    log.log_start = 2
    log.trimmed = 0
    world.partition("flights").shard.log.changed = True
    world.produce("flights", b"y")
    world.pass_time(10_000)

    again = world.restarted()
    again.stabilize()

    assert (2, 2, [2]) == (
        again.partition("flights").log_start,
        again.partition("flights").log.trimmed,
        [segment.base_offset for segment in again.partition("flights").log.segments],
    )

"""ListOffsets returns the offsets for timestamps; negative timestamps have special meanings."""

import pytest

from tests.unit.broker.broker_world import BEGIN_MS, BrokerWorld
from tests.unit.broker.handlers.test_produce_recompression import request_of, results
from tidemill.batches.batch import HEADER_BYTES, LENGTH_BYTES, read_header, stamp_crc, write_header
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec, compress
from tidemill.batches.records import OPENED_BYTES_MAX
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.storage.disk import Disk, File
from tidemill.storage.partition.segment import Segment
from tidemill.wire.messages import delete_records
from tidemill.wire.messages.list_offsets import Request


def offset_of(world: BrokerWorld, timestamp: int, name: str = "flights") -> tuple[int, int]:
    partition = Request.Topic.Partition(partition_index=0, timestamp=timestamp)
    topic = Request.Topic(name=name, partitions=[partition])
    (answer,) = world.ask(Request(replica_id=-1, isolation_level=0, topics=[topic])).topics[0].partitions
    return answer.error_code, answer.offset


def test_offsets_are_found_by_their_time() -> None:
    """
    A lookup by timestamp returns the first record that is not older.  -1 means the end, -2 the start, and -3 the first
    record with the largest timestamp.
    """
    world = BrokerWorld()
    world.create("flights")
    for minute in range(4):
        world.produce("flights", b"left", timestamp_ms=BEGIN_MS + 60_000 * (minute % 3))

    found = [offset_of(world, timestamp) for timestamp in (-1, -2, -3, BEGIN_MS + 1, BEGIN_MS + 120_001)]

    assert [(0, 4), (0, 0), (0, 2), (0, 1), (0, -1)] == found


def test_tiered_offsets_do_not_exist() -> None:
    """
    -4 means the start of the local log.  -5 and -6 request offsets of tiered records, which do not exist, and -7 is
    unknown.
    """
    world = BrokerWorld()
    world.create("flights", 1)
    world.produce("flights", b"stays")

    told = [offset_of(world, timestamp) for timestamp in (-4, -5, -6, -7)]

    nothing = (errors.NONE, -1)
    assert [(errors.NONE, 0), nothing, nothing, (errors.UNSUPPORTED_VERSION, -1)] == told


def test_a_partition_that_does_not_exist_has_no_offsets() -> None:
    """
    A request for the offsets of a partition that does not exist gets an error, and does not create the topic.
    """
    world = BrokerWorld()

    answered = offset_of(world, -1)

    assert (errors.UNKNOWN_TOPIC_OR_PARTITION, -1) == answered


def test_a_partition_that_is_deleted_during_the_look_up_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are neither missing nor out of range: a consumer would begin elsewhere in the topic."""
    world = BrokerWorld()
    world.create("flights")
    world.produce("flights", b"left", timestamp_ms=BEGIN_MS)
    world.pass_time(500)  # the record is written to its segment
    log, opened = world.partition("flights").log, Segment.opened
    log.tail.clear()

    def then_deleted(segment: Segment, disk: Disk) -> File:
        file = opened(segment, disk)
        monkeypatch.setattr(Segment, "opened", opened)
        world.broker.controller.submit(DeleteTopics(topics=("flights",)))
        world.stabilize()
        assert not world.disk.exists(log.directory)
        return file

    monkeypatch.setattr(Segment, "opened", then_deleted)
    found = offset_of(world, BEGIN_MS)

    assert (errors.UNKNOWN_TOPIC_OR_PARTITION, -1) == found


def test_the_metadata_has_no_offsets_for_clients() -> None:
    """
    The topic is for brokers only.
    """
    world = BrokerWorld()

    told = [offset_of(world, timestamp, METADATA_TOPIC) for timestamp in (-1, -2, BEGIN_MS)]

    assert [(errors.TOPIC_AUTHORIZATION_FAILED, -1)] * 3 == told


def test_offsets_survive_a_kill() -> None:
    """
    After a kill, acknowledged records still have the same offsets.
    """
    world = BrokerWorld()
    world.create("flights")
    world.produce("flights", b"1", b"2")

    again = world.restarted()

    assert (0, 2) == offset_of(again, -1)


def test_a_record_that_was_deleted_is_never_found() -> None:
    """
    A deleted record may be in the same batch as the log start.  Its offset must not be returned, because a fetch from
    it would be out of range.
    """
    world = BrokerWorld()
    world.create("flights")
    world.produce("flights", b"a", b"b", b"c", timestamp_ms=[BEGIN_MS + 9, BEGIN_MS + 1, BEGIN_MS + 2])
    world.produce("flights", b"d", timestamp_ms=BEGIN_MS + 5)
    before = [offset_of(world, timestamp)[1] for timestamp in (-3, BEGIN_MS, BEGIN_MS + 2, BEGIN_MS + 4)]
    partition = delete_records.Request.Topic.Partition(partition_index=0, offset=1)
    topic = delete_records.Request.Topic(name="flights", partitions=[partition])
    world.ask(delete_records.Request(topics=[topic], timeout_ms=1_000))

    found = [offset_of(world, timestamp)[1] for timestamp in (-3, BEGIN_MS, BEGIN_MS + 2, BEGIN_MS + 4, BEGIN_MS + 6)]

    assert ([0, 0, 0, 0], [3, 1, 2, 3, -1]) == (before, found)


def test_a_batch_that_decompresses_to_too_much_is_not_looked_into() -> None:
    """
    A few kB of a producer become tens of megabytes.  Such batches are opened one after the other, by jobs of their own.
    """
    world = BrokerWorld()
    for name, size in (("small", OPENED_BYTES_MAX - 100), ("large", OPENED_BYTES_MAX)):
        world.create(name, 1)
        world.produce(name, bytes(size), timestamp_ms=BEGIN_MS, codec=Codec.ZSTD)

    small, large = (offset_of(world, BEGIN_MS, name) for name in ("small", "large"))

    assert (errors.NONE, 0) == small
    assert (errors.CORRUPT_MESSAGE, -1) == large


@pytest.mark.parametrize("payload", [b"not compressed", compress(Codec.ZSTD, b"\xff" * 9)])
def test_a_batch_that_is_not_records_is_corrupt(payload: bytes) -> None:
    """
    A producer has written it so: its topic exists, and asking again is in vain.
    """
    world = BrokerWorld()
    world.create("garbage")
    batch = build_batch([(None, b"value", (), BEGIN_MS)], codec=Codec.ZSTD)[:HEADER_BYTES] + payload
    write_header(batch, read_header(batch)._replace(batch_length=len(batch) - LENGTH_BYTES))
    stamp_crc(batch)
    assert [(errors.NONE, 0)] == results(world.ask(request_of(batch, topic="garbage"), version=12))

    found = offset_of(world, BEGIN_MS, "garbage")

    assert (errors.CORRUPT_MESSAGE, -1) == found

"""Produce recompresses batches with the topic's codec, off the event loop, and keeps their order."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.broker.broker_world import BEGIN_MS, BrokerWorld, Client
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.handlers.test_incremental_alter_configs import TOPIC, asked
from tidemill.batches.batch import HEADER_BYTES, read_header, spans, stamp_crc
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.broker.clients import recompressor
from tidemill.model import errors
from tidemill.shard.partition import Partition
from tidemill.storage.inspect.log_dump import dump
from tidemill.wire.messages import list_offsets, produce
from tidemill.wire.messages.produce import Request

VERSION = 12


def sequenced(sequence: int, codec: Codec = Codec.NONE) -> bytearray:
    """Return a batch with one record from an idempotent producer."""
    record = (b"k", b"%d" % sequence * 50, (("h", b"v"),), BEGIN_MS)
    return build_batch([record], codec=codec, producer_id=7, producer_epoch=0, base_sequence=sequence)


def request_of(*batches: bytearray, topic: str = "flights", acks: int = -1) -> Request:
    """Return a request with the given batches: the first for partition 0, the second for partition 1, and so on."""
    data = [Request.Topic.Partition(index=number, records=memoryview(batch)) for number, batch in enumerate(batches)]
    topics = [Request.Topic(name=topic, partition_data=data)]
    return Request(transactional_id=None, acks=acks, timeout_ms=1_000, topic_data=topics)


def results(answered: Any) -> list[tuple[int, int]]:
    """Return the error code and the base offset of each partition."""
    return [(it.error_code, it.base_offset) for it in answered.responses[0].partition_responses]


def stored(partition: Partition) -> list[memoryview]:
    """Return the batches in the partition's log."""
    found = partition.log.read(0, 1 << 20, partition.log.end_offset, may_wait=True)
    assert found is not None
    data = memoryview(b"".join(bytes(part) for part in found[0]))
    return [data[span.position : span.position + span.size] for span in spans(data)]


def codecs(partition: Partition) -> list[int]:
    return [read_header(batch).codec for batch in stored(partition)]


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("uncompressed", Codec.NONE),
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
    ],
)
def test_batches_are_stored_in_the_topic_s_codec(name: str, codec: Codec) -> None:
    """
    Whichever codec the producer uses, consumers read the same records, and all batches in the log have one codec.
    """
    world = BrokerWorld()
    world.create("flights", compression_type=name)

    offsets = [results(world.ask(request_of(sequenced(number, sent)), VERSION))[0] for number, sent in enumerate(Codec)]

    assert [(errors.NONE, number) for number in range(5)] == offsets
    assert [codec] * 5 == codecs(world.partition("flights"))
    assert [b"%d" % number * 50 for number in range(5)] == [record.value for record in world.read("flights")]


def test_a_dump_of_the_directory_shows_the_codec() -> None:
    """
    `tidemill log dump` shows the codec number of each batch in a segment.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="zstd")
    topic_id = world.partition("flights").log.topic_id
    for number, sent in enumerate(Codec):
        world.ask(request_of(sequenced(number, sent)), VERSION)

    world.pass_time(60_000)

    batches = [row for row in dump(world.disk) if row["type"] == "batch" and row["topic_id"] == topic_id.hex()]
    assert [(number, Codec.ZSTD, True) for number in range(5)] == [
        (row["base_offset"], row["codec"], row["crc_matches"]) for row in batches
    ]


def test_producer_is_the_default_and_recompresses_nothing() -> None:
    """
    With the default, compression.type=producer, batches are appended in the same turn of the event loop and exactly as
    they were sent.
    """
    world = BrokerWorld()
    world.create("flights")
    world.recompresses = False

    for number, sent in enumerate(Codec):
        world.ask(request_of(sequenced(number, sent)), VERSION)

    assert [*Codec] == codecs(world.partition("flights"))


def test_a_batch_in_the_topic_s_codec_is_stored_as_it_was_sent() -> None:
    """
    A batch that already has the topic's codec is not recompressed.  The broker stamps only the offset and the leader
    epoch, which the CRC does not cover.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="lz4", compression_lz4_level="17")
    world.recompresses = False
    batch = sequenced(0, Codec.LZ4)

    world.ask(request_of(batch), VERSION)

    assert bytes(batch[16:]) == bytes(stored(world.partition("flights"))[0][16:])


def test_a_broker_default_applies_to_topics() -> None:
    """
    The broker's compression.type applies to topics that do not set their own.
    """
    world = BrokerWorld({"compression.type": "zstd"})
    world.create("flights")
    world.create("tides", compression_type="gzip")
    world.create("ports", compression_type="producer")

    for name in ("flights", "tides", "ports"):
        world.ask(request_of(sequenced(0, Codec.SNAPPY), topic=name), VERSION)

    assert [[Codec.ZSTD], [Codec.GZIP], [Codec.SNAPPY]] == [
        codecs(world.partition(name)) for name in ("flights", "tides", "ports")
    ]


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_pipelined_batches_stay_in_order(acks: int) -> None:
    """
    The first and the third batch are recompressed.  The others already have the topic's codec, but must not overtake
    them, because that would leave a gap in the sequences of an idempotent producer.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="zstd")
    world.recompresses = False
    client = Client(world)

    for number, codec in enumerate((Codec.NONE, Codec.ZSTD, Codec.GZIP, Codec.ZSTD)):
        client.send(request_of(sequenced(number, codec), acks=acks), VERSION)
    world.stabilize()
    before = (world.partition("flights").log.end_offset, client.writer.is_reading)
    world.recompresses = True
    world.stabilize()

    assert (0, False) == before
    assert [0, 1, 2, 3] == [read_header(batch).base_sequence for batch in stored(world.partition("flights"))]
    answers = [client.answer(produce.API, VERSION) for _ in range(4)]
    assert [[(errors.NONE, n)] if acks else None for n in range(4)] == [it and results(it) for it in answers]


def test_another_request_of_the_connection_waits_for_the_recompression() -> None:
    """
    A ListOffsets request waits for the recompression of batches that the same connection has sent before, and returns
    an end offset that includes them.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="zstd")
    client = Client(world)
    latest = list_offsets.Request.Topic.Partition(partition_index=0, timestamp=-1)
    topics = [list_offsets.Request.Topic(name="flights", partitions=[latest])]

    client.send(request_of(sequenced(0), acks=0), VERSION)
    client.send(list_offsets.Request(replica_id=-1, topics=topics), 5)
    world.stabilize()

    assert 1 == client.answer(list_offsets.API, 5).topics[0].partitions[0].offset


def test_other_connections_are_served_meanwhile() -> None:
    """
    While a batch is being recompressed, on another thread, a batch from another connection is appended before it.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="zstd")
    world.recompresses = False
    slow = Client(world)
    slow.send(request_of(build_batch([(None, b"slow", (), BEGIN_MS)])), VERSION)

    fast = world.ask(request_of(build_batch([(None, b"fast", (), BEGIN_MS)], codec=Codec.ZSTD)), VERSION)
    world.recompresses = True
    world.stabilize()

    assert ([(errors.NONE, 0)], [(errors.NONE, 1)]) == (results(fast), results(slow.answer(produce.API, VERSION)))


def test_each_partition_of_a_request_has_its_own_result() -> None:
    """
    The first batch is kept as it is, the second is recompressed, the third cannot be decompressed, and the fourth is
    for a partition that does not exist.
    """
    world = BrokerWorld()
    world.create("flights", partitions=3, compression_type="gzip")
    broken = sequenced(0, Codec.ZSTD)
    broken[-3:] = b"???"
    stamp_crc(broken)

    answered = world.ask(request_of(sequenced(0, Codec.GZIP), sequenced(0), broken, sequenced(0)), VERSION)

    assert [
        (errors.NONE, 0),
        (errors.NONE, 0),
        (errors.CORRUPT_MESSAGE, -1),
        (errors.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ] == results(answered)
    told = answered.responses[0].partition_responses[2]
    assert "the batch cannot be decompressed" in told.error_message
    assert [1, 1, 0] == [world.partition("flights", number).log.end_offset for number in range(3)]


def test_the_size_is_checked_before_and_after() -> None:
    """
    max.message.bytes bounds the size of the batch both as sent and as stored, as in Kafka.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="uncompressed", max_message_bytes="1000")
    records: Sequence[Any] = [(None, bytes(2_000), (), BEGIN_MS)]
    world.create("tides", compression_type="zstd", max_message_bytes="1000")

    codes = [
        results(world.ask(request_of(build_batch(records, codec=Codec.ZSTD), topic="flights"), VERSION))[0][0],
        results(world.ask(request_of(build_batch(records), topic="tides"), VERSION))[0][0],
    ]

    assert [errors.MESSAGE_TOO_LARGE] * 2 == codes


def test_a_new_compression_type_applies_to_a_batch_that_is_being_recompressed() -> None:
    """
    If the topic's codec changes while a batch is being recompressed, the batch is recompressed once more, and the
    client gets a single response.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="zstd")
    world.recompresses = False
    client = Client(world)
    client.send(request_of(sequenced(0)), VERSION)
    asked(world, TOPIC, "flights", "compression.type", "gzip")

    world.recompresses = True
    world.stabilize()

    assert [(errors.NONE, 0)] == results(client.answer(produce.API, VERSION))
    assert [Codec.GZIP] == codecs(world.partition("flights"))


def test_a_duplicate_is_recognized_after_recompression() -> None:
    """
    A producer that sends a batch again gets the offset of the first attempt, and the log contains the batch once.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="zstd")

    answers = [results(world.ask(request_of(sequenced(0)), VERSION)) for _ in range(2)]

    assert ([[(errors.NONE, 0)]] * 2, 1) == (answers, world.partition("flights").log.end_offset)


def test_log_append_time_is_stamped_on_the_recompressed_batch() -> None:
    """
    With message.timestamp.type=LogAppendTime, both the codec and the timestamp type are those of the topic.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="zstd", message_timestamp_type="LogAppendTime")
    world.pass_time(5_000)

    told = world.produce("flights", b"a", b"b", timestamp_ms=1)

    (header,) = [read_header(batch) for batch in stored(world.partition("flights"))]
    assert (BEGIN_MS + 5_000, Codec.ZSTD, True) == (told.log_append_time_ms, header.codec, header.is_log_append_time)


def test_recompressed_bytes_count_until_the_request_is_answered() -> None:
    """
    The recompressed bytes count towards the memory of all connections, as the bytes of the request do.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="uncompressed")
    world.writes = False
    client = Client(world)
    batch = build_batch([(None, bytes(10_000), (), BEGIN_MS)], codec=Codec.ZSTD)

    client.send(request_of(batch), VERSION)
    world.stabilize()
    working = world.broker.memory.working_bytes
    world.writes = True
    world.stabilize()

    assert HEADER_BYTES + 10_000 < working
    assert (0, [(errors.NONE, 0)]) == (
        world.broker.memory.working_bytes,
        results(client.answer(produce.API, VERSION)),
    )


def test_a_recompressed_request_counts_once_in_the_topic_s_metrics() -> None:
    """
    The request contains two batches, one of which is recompressed.  The bytes counted are those that were stored.
    """
    world = BrokerWorld()
    world.create("flights", partitions=2, compression_type="zstd")

    world.ask(request_of(sequenced(0, Codec.ZSTD), sequenced(0)), VERSION)

    counters = world.partition("flights").counters
    size = sum(len(batch) for number in (0, 1) for batch in stored(world.partition("flights", number)))
    assert (1, 2, size) == (counters.produce_requests, counters.records_in, counters.bytes_in)


def test_a_lost_connection_s_batch_is_appended() -> None:
    """
    The broker has received the request, and a producer with acks=0 may close its connection right after sending it.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="zstd")
    world.recompresses = False
    client = Client(world)
    client.send(request_of(sequenced(0), acks=0), VERSION)

    client.connection.lost(None)
    world.recompresses = True
    world.stabilize()

    assert (1, 0) == (world.partition("flights").high_watermark, world.broker.memory.working_bytes)


def test_a_defect_closes_the_connection_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    An unexpected error in a recompression closes the connection: a Produce response has no error code for the whole
    request, so the client would wait forever if the connection stayed open.
    """
    world = BrokerWorld()
    world.create("flights", compression_type="zstd")
    client = Client(world)
    with monkeypatch.context() as patch:
        patch.setattr(recompressor, "recompress_all", lambda *_: 1 // 0)
        client.send(request_of(sequenced(0)), VERSION)
        world.stabilize()

    assert (False, 1, 0) == (
        client.writer.is_open,
        world.broker.metrics.request_failures,
        world.broker.memory.working_bytes,
    )
    assert [(errors.NONE, 0)] == results(world.ask(request_of(sequenced(0)), VERSION))


def test_followers_store_the_recompressed_bytes() -> None:
    """
    The leader recompresses before it appends, so the followers and every later leader have the batch in the topic's
    codec.
    """
    world = ClusterWorld()
    world.create("flights", compression_type="zstd")

    answered = world[1].client.ask(request_of(sequenced(0), acks=-1), VERSION)
    world.stabilize()

    assert [(errors.NONE, 0)] == results(answered)
    logs = [[bytes(batch) for batch in stored(world[number].partition("flights"))] for number in (1, 2, 3)]
    assert logs[0] == logs[1] == logs[2]
    assert [Codec.ZSTD] == [read_header(batch).codec for batch in logs[0]]


def test_a_leader_that_steps_down_meanwhile_refuses_the_batch() -> None:
    """
    If the leader steps down while it recompresses a batch, the batch is refused and not appended, and the client looks
    for the new leader.
    """
    world = ClusterWorld()
    world.create("flights", compression_type="zstd")
    world[1].recompresses = False
    client = Client(world[1])
    client.send(request_of(sequenced(0)), VERSION)
    world.stabilize()

    world.lead("flights", by=2)
    world[1].recompresses = True
    world.stabilize()

    assert [(errors.NOT_LEADER_OR_FOLLOWER, -1)] == results(client.answer(produce.API, VERSION))
    assert 0 == world[2].partition("flights").log.end_offset

"""Produce appends what it may, and says what it may not."""

from tests.unit.broker.broker_world import BEGIN_MS, BrokerWorld
from tidemill.batches.builder import build_batch
from tidemill.metadata.configs import Change, IncrementalAlterConfigs, Operation
from tidemill.metadata.metadata_records import BROKER_RESOURCE, ConfigResource
from tidemill.model import errors
from tidemill.wire.messages.produce import Request


def test_a_batch_has_its_offset_when_it_is_acknowledged() -> None:
    """
    Offsets are dense, and the high watermark has passed what was acknowledged.
    """
    world = BrokerWorld()
    world.create("flights")

    offsets = [world.produce("flights", *values).base_offset for values in ((b"a", b"b"), (b"c",), (b"d",))]

    assert ([0, 2, 3], 4) == (offsets, world.partition("flights").high_watermark)


def test_a_partition_that_no_topic_has_is_unknown() -> None:
    """
    Not "led elsewhere": a client would look for its leader for ever.
    """
    world = BrokerWorld()
    world.create("flights", partitions=2)

    codes = [world.produce("flights", b"x", number=2).error_code, world.produce("tides", b"x").error_code]

    assert [errors.UNKNOWN_TOPIC_OR_PARTITION] * 2 == codes


def test_a_record_has_the_time_at_which_it_was_appended_where_the_topic_wants_that() -> None:
    """
    message.timestamp.type=LogAppendTime: the producer is told the time, and who reads is given it.
    """
    world = BrokerWorld()
    world.create("flights", message_timestamp_type="LogAppendTime")
    world.pass_time(5_000)

    told = world.produce("flights", b"a", b"b", timestamp_ms=1)

    records = world.read("flights")
    assert (BEGIN_MS + 5_000, [BEGIN_MS + 5_000] * 2) == (
        told.log_append_time_ms,
        [record.timestamp for record in records],
    )


def test_acknowledgement_by_more_replicas_than_there_are_is_refused() -> None:
    """
    min.insync.replicas holds for acks=all; who asks for less is served.
    """
    world = BrokerWorld()
    world.create("flights")  # a topic that says so itself is refused; the cluster's default may rise later
    default = ConfigResource(BROKER_RESOURCE, "")
    change = Change("min.insync.replicas", Operation.SET, "2")
    world.broker.controller.submit(IncrementalAlterConfigs(resources=((default, (change,)),)))
    world.settle()

    codes = [world.produce("flights", b"x", acks=acks).error_code for acks in (-1, 1)]

    assert ([errors.NOT_ENOUGH_REPLICAS, errors.NONE], [b"x"]) == (
        codes,
        [record.value for record in world.read("flights")],
    )


def test_what_acks_may_be_is_told() -> None:
    """
    -1, 0 and 1, and nothing else.
    """
    world = BrokerWorld()
    world.create("flights")

    answered = world.produce("flights", b"x", acks=2)

    assert (errors.INVALID_REQUIRED_ACKS, -1) == (answered.error_code, answered.base_offset)


def test_a_topic_is_named_by_its_id() -> None:
    """
    From version 13 on; an id that no topic has is UNKNOWN_TOPIC_ID, and both are answered by id.
    """
    world = BrokerWorld()
    world.create("flights")
    known, unknown = world.partition("flights").log.topic_id, b"?" * 16
    asked = [
        Request.Topic(topic_id=topic_id, partition_data=[Request.Topic.Partition(index=0, records=records)])
        for topic_id, records in ((known, memoryview(build_batch([(None, b"x", (), BEGIN_MS)]))), (unknown, None))
    ]

    answered = world.ask(Request(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=asked), version=13)

    assert [(known, errors.NONE, 0), (unknown, errors.UNKNOWN_TOPIC_ID, -1)] == [
        (topic.topic_id, it.error_code, it.base_offset)
        for topic in answered.responses
        for it in topic.partition_responses
    ]
    assert [b"x"] == [record.value for record in world.read("flights")]

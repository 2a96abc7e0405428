"""Produce appends what it may, and says what it may not."""

from tests.unit.broker.broker_world import BEGIN_MS, BrokerWorld, Client
from tidemill.batches.batch import read_header
from tidemill.batches.records import read_records
from tidemill.model import errors


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

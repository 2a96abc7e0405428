"""OffsetForLeaderEpoch returns the offset at which an epoch ended."""

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.wire.messages.offset_for_leader_epoch import Request


def asked(
    world: BrokerWorld, epoch: int, *, current: int = -1, number: int = 0, topic: str = "flights"
) -> tuple[int, int, int]:
    partition = Request.Topic.Partition(partition=number, current_leader_epoch=current, leader_epoch=epoch)
    (answer,) = world.ask(Request(topics=[Request.Topic(topic=topic, partitions=[partition])])).topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


def world_of_two_epochs() -> BrokerWorld:
    """Return a broker on which epoch 1 wrote offsets 0 to 2 and epoch 2 wrote offset 3."""
    world = BrokerWorld()
    world.create("flights")
    world.produce("flights", b"a", b"b", b"c")
    again = world.restarted()
    again.produce("flights", b"d")
    return again


def test_an_epoch_ends_where_the_next_begins() -> None:
    """
    The latest epoch ends at the high watermark.  For an epoch newer than the latest one, epoch and end offset are -1.
    """
    world = world_of_two_epochs()

    found = [asked(world, epoch) for epoch in (1, 2, 3)]

    assert [(errors.NONE, 1, 3), (errors.NONE, 2, 4), (errors.NONE, -1, -1)] == found


def test_a_client_of_another_epoch_is_fenced() -> None:
    """
    KIP-320: a client with an older epoch than the broker's is fenced; one with a newer epoch gets another error.
    """
    world = world_of_two_epochs()

    codes = [asked(world, 1, current=current)[0] for current in (1, 2, 3)]

    assert [errors.FENCED_LEADER_EPOCH, errors.NONE, errors.UNKNOWN_LEADER_EPOCH] == codes


def test_the_metadata_has_no_epochs_for_clients() -> None:
    """
    The topic is for brokers only.
    """
    world = world_of_two_epochs()

    answered = asked(world, 1, topic=METADATA_TOPIC)

    assert (errors.TOPIC_AUTHORIZATION_FAILED, -1, -1) == answered


def test_a_partition_that_does_not_exist_has_no_epochs() -> None:
    """
    A partition number at or beyond the partition count is refused.
    """
    world = world_of_two_epochs()

    answered = asked(world, 1, number=7)

    assert (errors.UNKNOWN_TOPIC_OR_PARTITION, -1, -1) == answered

"""A producer that retries a batch of a timer topic: the records keep their arrival numbers, and come once."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors

DELAY_MS = 60_000


@pytest.fixture
def world() -> BrokerWorld:
    made = BrokerWorld()
    made.create("reminders", tidemill_kind="timer")
    assert 0 == made.produce("reminders", b"of another producer").base_offset
    made.pass_time(1_000)
    return made


def produce(world: BrokerWorld, *values: bytes, sequence: int) -> int:
    """Send a batch of an idempotent producer, with a delay, and return the offset in the response."""
    answered = world.produce(
        "reminders",
        *values,
        headers=[("tidemill-delay", b"%d" % DELAY_MS)],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
    )
    assert errors.NONE == answered.error_code, answered.error_message
    return answered.base_offset


def delivered(world: BrokerWorld) -> list[tuple[bytes | None, int]]:
    """Return the values of all visible records, and their arrival numbers."""
    return [(it.value, int(dict(it.headers)["tidemill-arrival"] or b"")) for it in world.read("reminders")]


OTHER = (b"of another producer", 0)
EXPECTED = [OTHER, (b"a", 1), (b"b", 2), (b"c", 3)]


def test_a_batch_that_waits_is_stored_once(world: BrokerWorld) -> None:
    """
    The response to the retry has the arrival number of the original, although it counts no offset of the partition.
    """
    numbers = [produce(world, b"a", b"b", sequence=0) for _ in range(2)]
    numbers += [produce(world, b"c", sequence=2) for _ in range(2)]
    assert [OTHER] == delivered(world)

    world.pass_time(DELAY_MS + 1_000)

    assert [1, 1, 3, 3] == numbers
    assert EXPECTED == delivered(world)


def test_a_batch_that_was_delivered_is_not_delivered_again(world: BrokerWorld) -> None:
    """
    The release takes no part of what a producer may repeat: its batch has no producer, and another offset.
    """
    numbers = [produce(world, b"a", b"b", sequence=0)]
    world.pass_time(DELAY_MS + 1_000)

    numbers += [produce(world, b"a", b"b", sequence=0), produce(world, b"c", sequence=2)]
    world.pass_time(DELAY_MS + 1_000)

    assert [1, 1, 3] == numbers
    assert EXPECTED == delivered(world)


def test_a_restarted_broker_knows_the_batches_that_wait(world: BrokerWorld) -> None:
    numbers = [produce(world, b"a", b"b", sequence=0), produce(world, b"c", sequence=2)]
    restarted = world.restarted()
    restarted.pass_time(1_000)

    numbers += [produce(restarted, b"a", b"b", sequence=0), produce(restarted, b"c", sequence=2)]
    restarted.pass_time(DELAY_MS + 1_000)

    assert [1, 3, 1, 3] == numbers
    assert EXPECTED == delivered(restarted)


def test_a_batch_that_leaves_one_out_is_refused(world: BrokerWorld) -> None:
    """
    The sequence of a producer is checked at arrival, as on any topic.
    """
    produce(world, b"a", sequence=0)

    answered = world.produce("reminders", b"c", producer_id=7, producer_epoch=0, base_sequence=2)

    assert errors.OUT_OF_ORDER_SEQUENCE_NUMBER == answered.error_code

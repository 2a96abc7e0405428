"""CreatePartitions raises the partition count of a topic and moves no existing partition."""

from typing import Any

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.wire.messages.create_partitions import Request


def request(name: str, count: int, validate_only: bool = False) -> Request:
    topic = Request.Topic(name=name, count=count, assignments=None)
    return Request(topics=[topic], timeout_ms=1_000, validate_only=validate_only)


def result(world: BrokerWorld, asked: Request) -> Any:
    (answer,) = world.client.ask_only(asked).results
    return answer


def test_new_partitions_have_leaders_when_the_response_arrives() -> None:
    """
    When the response arrives, the new partitions have leaders.  The existing partitions keep their records.
    """
    world = BrokerWorld()
    world.create("flights", partitions=2)
    world.produce("flights", b"left", number=1)

    answer = result(world, request("flights", 20))

    assert errors.NONE == answer.error_code
    assert all(world.partition("flights", number).shard.is_serving for number in range(20))
    assert [1, 0] == [world.partition("flights", number).high_watermark for number in (1, 19)]


def test_a_count_that_is_not_larger_is_refused() -> None:
    """
    Partitions are never removed, so the requested count must be larger than the current one.
    """
    world = BrokerWorld()
    world.create("flights", partitions=2)

    codes = [result(world, request("flights", count)).error_code for count in (1, 2)]

    assert [errors.INVALID_PARTITIONS] * 2 == codes
    assert errors.UNKNOWN_TOPIC_OR_PARTITION == result(world, request("tides", 3)).error_code


def test_validate_only_changes_nothing() -> None:
    """
    A request with `validate_only` gets the same response as a real one, but creates no partitions.
    """
    world = BrokerWorld()
    world.create("flights", partitions=2)

    answer = result(world, request("flights", 5, validate_only=True))

    assert (errors.NONE, 2) == (answer.error_code, len(world.broker.shard_table.topics["flights"]))

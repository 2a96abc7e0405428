"""AlterReplicaLogDirs accepts the only directory of a broker, and refuses all others."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.model import errors
from tidemill.wire.messages.alter_replica_log_dirs import Request


def wanted(**directories: list[tuple[str, list[int]]]) -> Request:
    """Return a request for topics with partitions, by directory."""
    directory = Request.Directory
    return Request(
        dirs=[
            directory(path=path, topics=[directory.Topic(name=name, partitions=numbers) for name, numbers in topics])
            for path, topics in directories.items()
        ]
    )


def codes(world: BrokerWorld, request: Request, version: int | None = None) -> dict[tuple[str, int], int]:
    results = world.ask(request, version).results
    return {(topic.topic_name, it.partition_index): it.error_code for topic in results for it in topic.partitions}


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_stays_in_the_only_directory(version: int) -> None:
    """
    The path is the one of DescribeLogDirs.  Another path is refused, whatever else is wrong with the partition, and
    unknown partitions are.
    """
    world = BrokerWorld()
    world.create("flights", partitions=3)
    root = world.disk.root

    told = codes(world, wanted(**{root: [("flights", [0, 7]), ("ports", [0])], "/else": [("flights", [1])]}), version)

    assert {
        ("flights", 0): errors.NONE,
        ("flights", 7): errors.UNKNOWN_TOPIC_OR_PARTITION,
        ("ports", 0): errors.UNKNOWN_TOPIC_OR_PARTITION,
        ("flights", 1): errors.LOG_DIR_NOT_FOUND,
    } == told


def test_each_topic_has_one_result() -> None:
    """Clients look a topic up by its name, and would miss a second result."""
    world = BrokerWorld()
    world.create("flights", partitions=2)

    response = world.ask(wanted(**{world.disk.root: [("flights", [0])], "/else": [("flights", [1])]}))

    assert [("flights", 2)] == [(topic.topic_name, len(topic.partitions)) for topic in response.results]


def test_a_replica_of_another_broker_is_not_available() -> None:
    """Kafka's command asks again until the replica is here."""
    world = ClusterWorld()
    world.create("flights", brokers=(1, 2))
    node = world[3]

    (topic,) = node.ask(wanted(**{node.broker.store.disk.root: [("flights", [0])]})).results

    assert [errors.REPLICA_NOT_AVAILABLE] == [it.error_code for it in topic.partitions]

"""DescribeLogDirs describes the data directory, its disk, and the replicas on this broker."""

import errno
from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.wire.messages.describe_log_dirs import Request


def asked(world: BrokerWorld, *topics: tuple[str, Sequence[int]], version: int | None = None) -> Any:
    """Return the description of the only directory.  If no topics are given, ask for every partition."""
    wanted = [Request.Topic(topic=name, partitions=partitions) for name, partitions in topics]
    response = world.ask(Request(topics=wanted or None), version)
    assert errors.NONE == response.error_code
    (result,) = response.results
    return result


def sizes(result: Any) -> dict[tuple[str, int], int]:
    return {(topic.name, it.partition_index): it.partition_size for topic in result.topics for it in topic.partitions}


def test_the_directory_and_its_disk_are_described() -> None:
    """
    The path, the total bytes and the usable bytes are those of the disk.  There is one directory, and it is not
    cordoned.
    """
    world = BrokerWorld()
    world.disk.free_bytes = 5 << 30

    result = asked(world)

    assert (errors.NONE, world.disk.root) == (result.error_code, result.log_dir)
    assert (world.disk.total_space(), 5 << 30, False) == (result.total_bytes, result.usable_bytes, result.is_cordoned)


def test_null_topics_are_every_partition_with_its_size() -> None:
    """
    A request with null topics gets every partition.  The size of a partition counts all its batches, including those
    that have not been written back to the segment yet.
    """
    world = BrokerWorld()
    world.create("flights", partitions=2)
    world.create("tides")
    world.produce("flights", bytes(1_000), number=1)

    result = asked(world)

    assert {("flights", 0), ("flights", 1), ("tides", 0)} == sizes(result).keys()
    assert [0, 0] == [sizes(result)["flights", 0], sizes(result)["tides", 0]]
    assert 1_000 < sizes(result)["flights", 1] < 1_100
    assert {(0, False)} == {(it.offset_lag, it.is_future_key) for topic in result.topics for it in topic.partitions}


def test_only_the_requested_partitions_are_described() -> None:
    """
    Partitions and topics that are not on this broker are left out, repeated partitions are described once, and an empty
    list selects no partition.
    """
    world = BrokerWorld()
    world.create("flights", partitions=3)
    world.create("tides")

    result = asked(world, ("flights", [2, 0, 7]), ("ports", [0]), ("tides", []), ("flights", [0]))

    assert [("flights", 0), ("flights", 2)] == list(sizes(result))
    assert not world.ask(Request(topics=[])).results[0].topics


def test_the_metadata_topic_is_described_when_it_is_named() -> None:
    """
    The metadata topic is described only if the request names it.
    """
    world = BrokerWorld()

    assert {} == sizes(asked(world))
    assert [(METADATA_TOPIC, 0)] == list(sizes(asked(world, (METADATA_TOPIC, [0]))))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_versions_have_no_disk_space(version: int) -> None:
    """
    Before v4, as in Kafka before 3.3, the response lists partitions but not the bytes of the disk.
    """
    world = BrokerWorld()
    world.create("flights")

    result = asked(world, version=version)

    assert ([("flights", 0)], -1, -1) == (list(sizes(result)), result.total_bytes, result.usable_bytes)


def test_a_disk_that_does_not_answer_is_an_error_of_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The directory has the error KAFKA_STORAGE_ERROR, which Kafka returns for a directory that is offline.
    """
    world = BrokerWorld()
    world.create("flights")

    def failing() -> int:
        raise OSError(errno.EIO, "no answer")

    monkeypatch.setattr(world.disk, "total_space", failing)

    result = asked(world)

    assert (errors.KAFKA_STORAGE_ERROR, world.disk.root, 0) == (result.error_code, result.log_dir, len(result.topics))


def test_each_broker_describes_its_own_replicas() -> None:
    """
    A topic with two replicas is in the directories of two brokers, whether they lead it or not, and has the same size
    in both.
    """
    world = ClusterWorld()
    world.create("flights", brokers=(1, 2))
    world[1].produce("flights", bytes(1_000))
    world.stabilize()

    found = [sizes(asked(world[number])) for number in (1, 2, 3)]

    assert found[0] == found[1] and 1_000 < found[0]["flights", 0]
    assert {} == found[2]

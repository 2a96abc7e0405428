"""A broker's image follows the metadata log, even through an install."""

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.broker.controller import image_follower
from tidemill.broker.coordinators import hosted_partition
from tidemill.model.shard import METADATA_SHARD


@pytest.fixture
def world() -> Iterator[ClusterWorld]:
    """
    Return a cluster whose broker 3 needs an install: it was isolated while a snapshot replaced the start of the
    metadata log.
    """
    with (
        patch.object(hosted_partition, "SNAPSHOT_RECORDS_MIN", 30),
        patch.object(hosted_partition, "SNAPSHOT_GROWTH", 1),
        patch.object(hosted_partition, "BATCH_RECORDS_MAX", 5),
    ):
        world = ClusterWorld()
        for node in world.nodes:
            node.broker.store.options = replace(node.options, tail_entries=2)
        world.create("flights")
        world[1].produce("flights", b"kept")
        before = world[3].broker.shard_table.shards[METADATA_SHARD].log
        end_index, end_offset = before.last_index, before.partitions[0].end_offset
        world.cut_off(3)
        world.pass_time(3_000)
        world.stopped.add(3)
        for number in range(20):
            world.create(f"other-{number}", brokers=(1, 2))
            world.pass_time(50)  # write the bytes back to segments: their rows can be removed only after that
        log = world[1].broker.shard_table.shards[METADATA_SHARD].log
        assert log.first_index > end_index + 1 and log.partitions[0].log_start > end_offset
        world.stopped.clear()
        yield world


def test_an_install_of_the_metadata_deletes_no_topic(world: ClusterWorld) -> None:
    """
    During the install, topics are missing from the follower's metadata log.  The broker must not delete any of them,
    then or later.
    """
    before = world[3].shard("flights")

    world.heal()
    world.until(lambda: world.led_by("other-19") != 0, "broker 3 has the image")

    assert world[3].shard("flights") is before
    assert not world[3].broker.store.closed
    assert world[1].broker.image.topics.keys() == world[3].broker.image.topics.keys()


def test_installed_metadata_is_applied_in_slices(world: ClusterWorld) -> None:
    """
    After an install, the new image is built in slices.  The event loop does other work between them, and the broker
    uses its old image until the new one is complete.
    """
    broker = world[3].broker
    offsets, images = dict[int, None](), dict[int, None]()

    def is_read() -> bool:
        offsets[broker.image_follower._applied] = None
        images[len(broker.image.topics)] = None
        return "other-19" in broker.image.topics

    with patch.object(image_follower, "TURN_BYTES", 1):
        world.network.cut.clear()
        for links in world[3].links:
            links.redial()
        world.steps_until(is_read, "broker 3 has the image")

    assert len(offsets) > 3
    assert [2, 22] == [*images]

"""The image that follows the metadata log."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.broker.controller import image_follower
from tidemill.broker.coordinators import hosted_partition
from tidemill.metadata.topics import CreateTopics, NewTopic
from tidemill.model.shard import METADATA_SHARD
from tidemill.shard.pending import OUTCOME_UNKNOWN


@pytest.fixture
def world() -> Iterator[ClusterWorld]:
    """Broker 3 was away while the metadata log has grown past a snapshot, and its rows have left memory."""
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
            world.pass_time(50)  # bytes of rows that may go are in segments
        log = world[1].broker.shard_table.shards[METADATA_SHARD].log
        assert log.first_index > end_index + 1 and log.partitions[0].log_start > end_offset
        world.stopped.clear()
        yield world


def test_an_install_of_the_metadata_takes_no_topic_along(world: ClusterWorld) -> None:
    """
    While it is under way the metadata log of the follower is empty: that deletes nothing, neither here nor later.
    """
    before = world[3].shard("flights")

    world.heal()
    world.until(lambda: world.led_by("other-19") != 0, "broker 3 has the image")

    assert world[3].shard("flights") is before
    assert not world[3].broker.store.closed
    assert world[1].broker.image.topics.keys() == world[3].broker.image.topics.keys()


def test_the_metadata_that_an_install_brought_are_read_a_part_a_turn(world: ClusterWorld) -> None:
    """
    Meanwhile the broker turns, and goes by the image of before: a part of the metadata is no image of the cluster.
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


def test_what_is_there_already_is_told_by_who_still_leads() -> None:
    """
    Nothing is written for that, so a controller that has been deposed and does not know it could tell of what is gone.
    """
    world = ClusterWorld()
    world.create("flights")
    again = CreateTopics(topics=(NewTopic(name="flights", partition_count=1, replication_factor=3),))
    host = world[1].broker.controller
    told: list[Any] = []
    world.network.held = lambda _source, _destination: True

    host.submit(again).then(told.append)
    world.stabilize()
    while_it_believes_to_lead = (host.leads, [*told])
    world.pass_time(3_000)

    assert ((True, []), [OUTCOME_UNKNOWN]) == (while_it_believes_to_lead, told)

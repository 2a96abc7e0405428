"""
Two versions of Tidemill in one cluster.  The newer one supports another feature level, and sends frame sections that
this version does not know.
"""

from typing import Any

import pytest

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tidemill.metadata.feature_levels import FEATURE_NAME, NEWEST, OLDEST
from tidemill.metadata.metadata_records import MetadataFormatError
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import NOTHING
from tidemill.storage.data_directory import WrongDirectory
from tidemill.wire.messages.update_features import Request

NEWER = NEWEST + 1


def replace(world: ClusterWorld, number: int, level: int) -> None:
    """Restart a broker with another version, and wait until it has caught up."""
    node = world[number]
    if level > NEWEST:
        world.network.newer.add(node.address)
    else:
        world.network.newer.discard(node.address)
    world.restart(number, newest_level=level)
    world.until(lambda: all(len(it.broker.cluster.eligible_leaders()) == 3 for it in world.nodes), "all meet")
    world.until(lambda: world.led_by("flights") != 0, "the topic has a leader")
    world.pass_time(1_000)


def produce(world: ClusterWorld, value: bytes) -> None:
    leader = world.led_by("flights")
    assert errors.NONE == world[leader].produce("flights", value).error_code


def upgrade(world: ClusterWorld, level: int) -> Any:
    """Raise the cluster's level, as Kafka's own command does, and return the response."""
    update = Request.Update(feature=FEATURE_NAME, max_version_level=level)
    client = world[1].client
    sent = client.send(Request(feature_updates=[update]))
    world.until(lambda: bool(client.writer.sent), "the upgrade is answered")
    return client.answer(*sent)


def levels(world: ClusterWorld) -> set[tuple[int, tuple[int, ...]]]:
    """Return the level of the cluster and of each broker, as each broker knows them."""
    images = [node.broker.image for node in world.nodes]
    return {(image.feature_level, tuple(image.brokers[BrokerId(it)].level for it in (1, 2, 3))) for image in images}


def values(world: ClusterWorld, number: int) -> list[bytes]:
    world.lead("flights", by=number)
    return [record.value or b"" for record in world[number].read("flights")]


@pytest.fixture
def world() -> ClusterWorld:
    world = ClusterWorld(newest_level=NEWEST)
    world.create("flights")
    return world


def test_brokers_are_replaced_by_a_newer_version_and_back(world: ClusterWorld) -> None:
    """
    A version goes up and back, one broker at a time, and everything is served meanwhile: until the level is raised,
    nothing is written that the older version cannot read.
    """
    expected: list[bytes] = []
    for level in (NEWER, NEWEST):
        for number in (1, 2, 3):
            replace(world, number, level)
            expected.append(b"%d-%d" % (level, number))
            produce(world, expected[-1])
        world.until(lambda level=level: levels(world) == {(NEWEST, (level,) * 3)}, "all know it")  # type: ignore[misc]

    assert [expected] * 3 == [values(world, number) for number in (1, 2, 3)]


def test_a_cluster_of_two_versions_is_not_upgraded(world: ClusterWorld) -> None:
    """The brokers of the older version are named.  When the last one is replaced, the upgrade succeeds."""
    refusals = []
    for number in (1, 2, 3):
        refusals.append(upgrade(world, NEWER).error_message)
        replace(world, number, NEWER)

    upgraded = upgrade(world, NEWER)

    assert [1, 2, 3] == [3 - refusal.count("supports up to") + 1 for refusal in refusals]
    assert f"broker 3 supports up to {NEWEST}: upgrade Tidemill there and restart it" in refusals[-1]
    assert errors.NONE == upgraded.error_code
    world.until(lambda: levels(world) == {(NEWER, (NEWER,) * 3)}, "all know the new level")
    produce(world, b"after")
    assert [[b"after"]] * 3 == [values(world, number) for number in (1, 2, 3)]


def test_a_dead_broker_blocks_an_upgrade_and_is_named(world: ClusterWorld) -> None:
    """A broker that is down may come back with an older version (Strimzi #10296)."""
    for number in (1, 2, 3):
        replace(world, number, NEWER)
    world.cut_off(3)
    world.stopped.add(3)
    world.until(lambda: len(world[1].broker.cluster.live()) == 2, "broker 3 is not heard")

    answer = upgrade(world, NEWER)

    assert "broker 3 is registered but not live: bring it back, or remove it" in answer.error_message
    assert NEWEST == world[1].broker.image.feature_level


def test_an_older_version_does_not_start_in_an_upgraded_cluster(world: ClusterWorld) -> None:
    """
    Neither a broker that goes back to the older version nor a new one with an empty directory starts.  Both messages
    name the level and the fix, and the new one takes no broker id.
    """
    for number in (1, 2, 3):
        replace(world, number, NEWER)
    assert errors.NONE == upgrade(world, NEWER).error_code
    world.pass_time(1_000)

    with pytest.raises(WrongDirectory, match=rf"at feature level {NEWER}, and .* on broker 4 supports up to {NEWEST}"):
        Node(world, 4, NOTHING, newest_level=NEWEST)

    del world.nodes[3]
    assert BrokerId(4) not in world[1].broker.image.brokers
    with pytest.raises(AssertionError, match="the machine failed") as failed:
        world.restart(3, newest_level=NEWEST)
    assert isinstance(failed.value.__cause__, MetadataFormatError)
    assert f"at feature level {NEWER}; this version supports up to {NEWEST}; upgrade" in str(failed.value.__cause__)


def test_a_cluster_of_the_first_version_is_upgraded_to_this_one() -> None:
    """
    At level 1 the brokers' levels are not in the metadata, which old brokers must be able to read.  The controller
    knows them from heartbeats, and records them with the new level.
    """
    world = ClusterWorld(newest_level=OLDEST)
    world.create("flights")
    for number in (3, 2, 1):
        replace(world, number, NEWEST)
    before = levels(world)

    answer = upgrade(world, NEWEST)

    world.until(lambda: levels(world) == {(NEWEST, (NEWEST,) * 3)}, "all know the new level")
    assert {(OLDEST, (OLDEST,) * 3)} == before
    assert errors.NONE == answer.error_code

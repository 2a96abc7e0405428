"""The lag of consumer groups, as their coordinator computes it."""

import pytest

from tests.unit.app.test_observed import samples
from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.group_member import STATIC, commit
from tidemill.app import group_lag
from tidemill.app.group_lag import group_lags
from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.coordinator.group.log_records import CommittedOffset, OffsetKey, offset_commit
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import errors
from tidemill.model.topic import OFFSETS_TOPIC, TopicId
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.wire.messages import find_coordinator


@pytest.fixture
def world() -> BrokerWorld:
    """Return a broker with 5 and 1 records in the two partitions of `flights`, and 2 records in `trains`."""
    world = BrokerWorld({**STATIC, "tidemill.metrics.group.lags.max": "2"})
    world.create("flights", partitions=2)
    world.create("trains")
    world.produce("flights", *[b"value"] * 5)
    world.produce("flights", b"value", number=1)
    world.produce("trains", b"one", b"two")
    return world


def test_the_lag_is_the_sum_over_the_partitions_with_a_committed_offset(world: BrokerWorld) -> None:
    """
    A partition without a committed offset does not count, because it is not known where its consumer will begin.  If a
    committed offset is beyond the end, the lag is 0, not negative.
    """
    commit(world, "flights", 3, 0, group_id="both")
    commit(world, "flights", 9, group_id="first")

    assert ([("both", "flights", 3), ("first", "flights", 0)], 0) == group_lags(world.broker, 10)


def test_the_largest_lags_have_rows_and_the_others_are_summed_up(world: BrokerWorld) -> None:
    """
    The largest lags are shown one by one and all others as a sum, so that no lag is hidden, however many groups there
    are.  If no rows are requested, no lag is computed.
    """
    for group_id, offset in (("a", 4), ("b", 0), ("c", 3), ("d", 2)):
        commit(world, "flights", offset, group_id=group_id)
    commit(world, "trains", 1, group_id="b")

    shown = {name: value for name, value in samples(world).items() if "group_lag_records" in name}

    assert {
        'tidemill_group_lag_records{group="b",topic="flights"}': "5.0",
        'tidemill_group_lag_records{group="d",topic="flights"}': "3.0",
        'tidemill_group_lag_records{group="(other)",topic="(other)"}': "4.0",
    } == shown
    assert ([], 0) == group_lags(world.broker, 0)


def test_the_offsets_of_a_deleted_topic_have_no_lag(world: BrokerWorld) -> None:
    """
    Offsets committed for a deleted topic have no lag, but those for a new topic with the same name do.  A coordinator
    may load an offset of the deleted topic before removing it.
    """
    commit(world, "trains", 1)
    world.broker.controller.submit(DeleteTopics(topics=("trains",)))
    world.stabilize()
    deleted = group_lags(world.broker, 10)
    world.create("trains")
    created = group_lags(world.broker, 10)
    commit(world, "trains", 0)

    assert [([], 0), ([], 0), ([("g", "trains", 0)], 0)] == [deleted, created, group_lags(world.broker, 10)]

    for hosted in world.broker.coordinators.of(GROUPS).hosted():
        old = CommittedOffset(offset=0, committed_at_ms=0, topic_id=TopicId(b"?" * 16))
        hosted.core.groups.replay(*offset_commit(OffsetKey(group_id="old", topic="flights", partition=0), old))

    assert ([("g", "trains", 0)], 0) == group_lags(world.broker, 10)


def test_a_coordinator_that_loads_shows_no_lag(world: BrokerWorld) -> None:
    """
    While a coordinator is loading, it reports no lag: it may have replayed only old commits, so the lag would seem to
    jump.
    """
    commit(world, "flights", 0)

    for hosted in world.broker.coordinators.of(GROUPS).hosted():
        hosted.is_loaded = False

    assert ([], 0) == group_lags(world.broker, 10)


def test_groups_beyond_the_bound_of_a_scrape_are_unmeasured(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A group is measured completely or not at all, so that no lag is reported too low.
    """
    monkeypatch.setattr(group_lag, "OFFSETS_MAX", 3)
    commit(world, "flights", 0, 0, group_id="a")
    commit(world, "flights", 0, 0, group_id="b")

    lags = group_lags(world.broker, 10)

    assert (1, 2) == (len(lags.rows), lags.unmeasured)
    assert "2.0" == samples(world)["tidemill_group_offsets_unmeasured"]


def test_partitions_without_a_sound_replica_on_the_coordinator_are_unmeasured() -> None:
    """
    A coordinator computes lag from the replicas on its own broker, including followers, and asks no other broker.
    Partitions without a usable replica there count as unmeasured.
    """
    world = ClusterWorld(static={**STATIC, "offsets.topic.num.partitions": "1"})
    world.create("followed")
    world.create("elsewhere", brokers=(3,))
    world[1].ask(find_coordinator.Request(coordinator_keys=["g"]))
    world.until(lambda: world.led_by(OFFSETS_TOPIC) != 0, "the group's partition is led")
    world.lead(OFFSETS_TOPIC, by=1)
    world.lead("followed", by=2)
    world[2].produce("followed", b"one", b"two")
    world.until(lambda: commit(world[1], "followed", 0) == [errors.NONE], "the coordinator is loaded")
    assert [errors.NONE] == commit(world[1], "elsewhere", 0)
    world.pass_time(1_000)

    assert ([("g", "followed", 2)], 1) == group_lags(world[1].broker, 10)
    assert ([], 0) == group_lags(world[2].broker, 10)

    partition = world[1].partition("followed")
    partition.shard.damage.mark(SegmentDamaged(partition.log.segments[0].path, 0, 0, "a flipped bit"))
    assert ([], 2) == group_lags(world[1].broker, 10)

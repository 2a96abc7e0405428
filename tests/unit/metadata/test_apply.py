"""Applying records to an image."""

import pytest

from tidemill.metadata.apply import apply
from tidemill.metadata.image import EMPTY
from tidemill.metadata.metadata_records import (
    BROKER_RESOURCE,
    BrokerRecord,
    BrokerStateRecord,
    ConfigRecord,
    ConfigResource,
    RemoveBrokerRecord,
    ReplicasRecord,
    ShardRecord,
    TopicRecord,
)
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId

TOPIC = TopicId(b"t" * 16)
VOTERS = tuple(ReplicaKey(BrokerId(broker_id), DirectoryId(bytes(16))) for broker_id in (1, 2))


def test_apply_does_not_change_the_old_image() -> None:
    """Applying a record builds a new image and leaves the old one unchanged, because readers may still use it."""
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log")])

    after = apply(before, [ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS)])

    assert (before.topics["t"].partition_count, after.topics["t"].partition_count) == (0, 3)
    assert (len(before.shards), len(after.shards)) == (0, 1)


def test_apply_copies_only_the_tables_that_change() -> None:
    """
    Applying a record copies only the tables that it changes, so a new setting costs the same with ten thousand topics
    as with one.
    """
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log")])

    after = apply(before, [ConfigRecord(ConfigResource(2, "t"), "retention.ms", "1")])

    assert before.topics is after.topics
    assert before.shards is after.shards


def test_an_image_has_the_offset_after_its_last_record() -> None:
    """
    The new image has the end offset that the caller passes; without one, each record advances the offset by one.
    """
    records = [TopicRecord(TOPIC, "t", "log"), ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS)]

    offsets = [apply(EMPTY, records).offset, apply(EMPTY, records, end_offset=40).offset]

    assert offsets == [2, 40]


def test_a_shards_replicas_change_and_its_founders_do_not() -> None:
    """
    The founders of a shard do not change with its replicas: a replica added later must start from the same initial
    voters, or there could be two disjoint majorities.
    """
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log"), ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS[:1])])

    after = apply(before, [ReplicasRecord(ShardId(1), VOTERS)])

    seen = [(image.shards[ShardId(1)].initial_voters, image.shards[ShardId(1)].replicas) for image in (before, after)]
    assert seen == [(VOTERS[:1], VOTERS[:1]), (VOTERS[:1], VOTERS)]
    assert before.topics == after.topics


def test_the_newest_goal_has_its_own_reason_and_former_replicas() -> None:
    """A ReplicasRecord replaces the whole goal: a record of an older version leaves neither a reason nor a way back."""
    shard_id, shard = ShardId(1), ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS[:1])
    placed = apply(EMPTY, [TopicRecord(TOPIC, "t", "log"), shard])

    moved = apply(placed, [ReplicasRecord(shard_id, VOTERS, VOTERS[:1], Reason.DRAIN)])
    by_older = apply(moved, [ReplicasRecord(shard_id, VOTERS[1:])])

    goals = [(image.shards[shard_id].previous, image.shards[shard_id].reason) for image in (placed, moved, by_older)]
    assert goals == [((), Reason.PLACED), (VOTERS[:1], Reason.DRAIN), ((), Reason.PLACED)]


@pytest.mark.parametrize(
    ("directory", "presence"), [(b"d" * 16, Presence.GONE), (b"e" * 16, Presence.ACTIVE)], ids=["same", "other"]
)
def test_only_another_directory_ends_the_absence_of_a_broker(directory: bytes, presence: Presence) -> None:
    """
    A registration keeps what is recorded of a broker, because an address says nothing about its disk.  Another
    directory is another disk: that one was never gone.  What an operator drains is the broker, whatever its directory.
    """
    broker_id = BrokerId(1)
    before = apply(
        EMPTY,
        [
            BrokerRecord(broker_id, DirectoryId(b"d" * 16), (), None, 2),
            BrokerStateRecord(broker_id, Presence.GONE, Drain.ALL),
        ],
    )

    after = apply(before, [BrokerRecord(broker_id, DirectoryId(directory), (), "b", 2)]).brokers[broker_id]

    assert (after.presence, after.drain, after.rack) == (presence, Drain.ALL, "b")


def test_a_removed_broker_leaves_nothing() -> None:
    """
    The configuration of a removed broker goes with it, and so does its state: a broker that later gets its id would
    otherwise begin with them.
    """
    other = BrokerRecord(BrokerId(11), DirectoryId(b"o" * 16), (), None, 2)
    settings = [
        ConfigRecord(ConfigResource(BROKER_RESOURCE, name), "log.retention.ms", "1") for name in ("1", "11", "")
    ]
    record = BrokerRecord(BrokerId(1), DirectoryId(b"d" * 16), (), None, 2)
    before = apply(EMPTY, [record, BrokerStateRecord(BrokerId(1), Presence.SILENT, Drain.ALL), other, *settings])

    after = apply(before, [RemoveBrokerRecord(BrokerId(1))])
    again = apply(after, [RemoveBrokerRecord(BrokerId(1)), record]).brokers[BrokerId(1)]

    assert ([*after.brokers], [name for _, name in after.configs]) == ([11], ["11", ""])
    assert (again.presence, again.drain) == (Presence.ACTIVE, Drain.NONE)


def test_a_repeated_shard_record_keeps_the_replicas() -> None:
    """A snapshot in the log may end between the record of a shard and the record of the shard's replicas."""
    initialized = ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS[:1])
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log"), initialized, ReplicasRecord(ShardId(1), VOTERS)])

    after = apply(before, [initialized])

    assert before.shards == after.shards


def test_a_shard_cannot_be_created_twice_with_different_founders() -> None:
    """The controller never writes a second record with other founders."""
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log"), ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS)])

    with pytest.raises(AssertionError):
        apply(before, [ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS[:1])])


def test_a_gap_between_shards_fails_an_assertion() -> None:
    """The controller never writes shards with a gap between their partitions."""
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log")])

    with pytest.raises(AssertionError):
        apply(before, [ShardRecord(ShardId(1), TOPIC, 1, 3, VOTERS)])

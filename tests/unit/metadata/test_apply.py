"""From one image to the next."""

import pytest

from tidemill.metadata.apply import FEATURE_LEVEL, apply
from tidemill.metadata.image import EMPTY
from tidemill.metadata.metadata_records import (
    ConfigRecord,
    ConfigResource,
    FeatureRecord,
    MetadataFormatError,
    ReplicasRecord,
    ShardRecord,
    TopicRecord,
)
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId

TOPIC = TopicId(b"t" * 16)
VOTERS = tuple(ReplicaKey(BrokerId(broker_id), DirectoryId(bytes(16))) for broker_id in (1, 2))


def test_an_image_is_never_changed() -> None:
    """Whoever holds one may go on reading it."""
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log")])

    after = apply(before, [ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS)])

    assert (before.topics["t"].partition_count, after.topics["t"].partition_count) == (0, 3)
    assert (len(before.shards), len(after.shards)) == (0, 1)


def test_only_what_changes_is_copied() -> None:
    """One setting more costs the same with ten thousand topics as with one."""
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log")])

    after = apply(before, [ConfigRecord(ConfigResource(2, "t"), "retention.ms", "1")])

    assert before.topics is after.topics
    assert before.shards is after.shards


def test_an_image_stands_for_an_offset() -> None:
    """Each record takes one offset, unless the caller knows better (batches of Raft's own take some as well)."""
    records = [TopicRecord(TOPIC, "t", "log"), ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS)]

    offsets = [apply(EMPTY, records).offset, apply(EMPTY, records, end_offset=40).offset]

    assert offsets == [2, 40]


def test_a_shards_replicas_change_and_its_founders_do_not() -> None:
    """Who joins later must begin with what the shard began with, or two majorities would not meet."""
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log"), ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS[:1])])

    after = apply(before, [ReplicasRecord(ShardId(1), VOTERS)])

    seen = [(image.shards[ShardId(1)].initial_voters, image.shards[ShardId(1)].replicas) for image in (before, after)]
    assert seen == [(VOTERS[:1], VOTERS[:1]), (VOTERS[:1], VOTERS)]
    assert before.topics == after.topics


def test_a_shard_that_is_told_again_keeps_its_replicas() -> None:
    """A snapshot run in the log may be cut short between a shard and its replicas."""
    initialized = ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS[:1])
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log"), initialized, ReplicasRecord(ShardId(1), VOTERS)])

    after = apply(before, [initialized])

    assert before.shards == after.shards


def test_a_shard_is_founded_once() -> None:
    """No log that we wrote says otherwise."""
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log"), ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS)])

    with pytest.raises(AssertionError):
        apply(before, [ShardRecord(ShardId(1), TOPIC, 0, 3, VOTERS[:1])])


def test_a_gap_between_shards_is_our_own_fault() -> None:
    """No log that we wrote has one."""
    before = apply(EMPTY, [TopicRecord(TOPIC, "t", "log")])

    with pytest.raises(AssertionError):
        apply(before, [ShardRecord(ShardId(1), TOPIC, 1, 3, VOTERS)])


def test_a_newer_cluster_is_not_joined_blindly() -> None:
    """A feature level that this version does not know stops it."""
    with pytest.raises(MetadataFormatError) as refused:
        apply(EMPTY, [FeatureRecord(FEATURE_LEVEL + 1)])

    assert "feature level 2" in str(refused.value)

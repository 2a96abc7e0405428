"""Snapshots of the metadata log: a sequence of records closed by an end record."""

import pytest

from tidemill.metadata.apply import apply
from tidemill.metadata.image import EMPTY, ClusterImage
from tidemill.metadata.metadata_records import (
    GROUP_RESOURCE,
    BrokerRecord,
    BrokerStateRecord,
    ConfigRecord,
    ConfigResource,
    RemoveTopicRecord,
    ReplicasRecord,
    ShardRecord,
    SnapshotEndRecord,
    TopicRecord,
    encode,
)
from tidemill.metadata.snapshot import CHUNK_BYTES_MAX, snapshot_chunks, snapshot_records
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId


def some_topics(count: int) -> ClusterImage:
    ids = [TopicId(number.to_bytes(16, "big")) for number in range(count + 1)]
    made = [
        record
        for number, topic_id in enumerate(ids)
        for record in (
            TopicRecord(topic_id, f"t{number}", "log"),
            ShardRecord(ShardId(number), topic_id, 0, 8, ()),
        )
    ]
    moved = ReplicasRecord(ShardId(0), (ReplicaKey(BrokerId(1), DirectoryId(bytes(16))),))
    return apply(EMPTY, [*made, moved, RemoveTopicRecord(ids[-1])])


def test_a_snapshot_restores_the_image() -> None:
    """
    A snapshot restores the complete state, including the next shard id of a cluster whose newest shard was deleted.
    """
    image = some_topics(3)

    back = apply(EMPTY, snapshot_records(image), end_offset=image.offset)

    assert image == back
    assert back.next_shard_id == 4


@pytest.mark.parametrize(
    ("presence", "drain"),
    [(Presence.GONE, Drain.NONE), (Presence.ACTIVE, Drain.ALL), (Presence.SILENT, Drain.LEADERS)],
)
def test_a_snapshot_has_the_states_of_brokers(presence: Presence, drain: Drain) -> None:
    """A new controller must neither count the silence of a broker from zero, nor end what an operator drains."""
    broker_id = BrokerId(1)
    records = [
        BrokerRecord(broker_id, DirectoryId(bytes(16)), (), None, 2),
        BrokerStateRecord(broker_id, presence, drain),
    ]
    image = apply(EMPTY, records)

    back = apply(EMPTY, snapshot_records(image))

    assert (back.brokers[broker_id].presence, back.brokers[broker_id].drain) == (presence, drain)


@pytest.mark.parametrize(("previous", "reason"), [((2,), Reason.PLACED), ((), Reason.USER), ((2,), Reason.DRAIN)])
def test_a_snapshot_has_the_former_replicas_and_the_reason(previous: tuple[int, ...], reason: Reason) -> None:
    """A cancelled move returns to its former replicas, even when the goal is where the shard was founded."""
    voters = {number: ReplicaKey(BrokerId(number), DirectoryId(bytes(16))) for number in (1, 2)}
    topic, former = TopicId(bytes(16)), tuple(voters[number] for number in previous)
    records = [
        TopicRecord(topic, "t", "log"),
        ShardRecord(ShardId(0), topic, 0, 1, (voters[1],)),
        ReplicasRecord(ShardId(0), (voters[1],), former, reason),
    ]

    back = apply(EMPTY, snapshot_records(apply(EMPTY, records)))

    assert (back.shards[ShardId(0)].previous, back.shards[ShardId(0)].reason) == (former, reason)


def test_a_big_snapshot_comes_in_chunks() -> None:
    """No chunk of a snapshot has more records than a batch may have, and only the last chunk has the end record."""
    chunks = list(snapshot_chunks(some_topics(20), records_max=10))

    assert [len(chunk) for chunk in chunks] == [10, 10, 10, 10, 6]
    assert SnapshotEndRecord(45) == chunks[-1][-1]


def test_chunks_are_bounded_in_bytes() -> None:
    """
    The chunks of a snapshot are bounded in bytes, too: a group's name may be 32 KB long, and a thousand records with
    such names would exceed the journal's capacity for one append.
    """
    names = [f"{number}" + "g" * 32_000 for number in range(600)]
    image = apply(EMPTY, [ConfigRecord(ConfigResource(GROUP_RESOURCE, name), "key", "value") for name in names])

    chunks = list(snapshot_chunks(image))

    assert max(sum(len(encode(record)) for record in chunk) for chunk in chunks) < CHUNK_BYTES_MAX + 33_000
    assert [record for chunk in chunks for record in chunk] == [*snapshot_records(image)]

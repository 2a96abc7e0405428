"""A snapshot is a run of records, closed by its end."""

import pytest

from tidemill.metadata.apply import apply
from tidemill.metadata.image import EMPTY, ClusterImage
from tidemill.metadata.metadata_records import (
    MetadataFormatError,
    RemoveTopicRecord,
    ReplicasRecord,
    ShardRecord,
    SnapshotEndRecord,
    TopicRecord,
)
from tidemill.metadata.snapshot import restore, snapshot_chunks, snapshot_records
from tidemill.model.broker_id import BrokerId, DirectoryId, Voter
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
    moved = ReplicasRecord(ShardId(0), (Voter(BrokerId(1), DirectoryId(bytes(16))),))
    return apply(EMPTY, [*made, moved, RemoveTopicRecord(ids[-1])])


def test_a_snapshot_restores_what_it_was_taken_of() -> None:
    """Everything comes back, also the next shard id, whose shard is long gone."""
    image = some_topics(3)

    back = restore(list(snapshot_records(image)), end_offset=image.offset)

    assert image == back
    assert back.next_shard_id == 4


def test_a_big_snapshot_comes_in_chunks() -> None:
    """No chunk is more than a batch holds, and only the last has the end."""
    chunks = list(snapshot_chunks(some_topics(20), records_max=10))

    assert [len(chunk) for chunk in chunks] == [10, 10, 10, 10, 6]
    assert SnapshotEndRecord(45) == chunks[-1][-1]


@pytest.mark.parametrize("part", [slice(0, 0), slice(0, -1), slice(1, None), slice(-1, None)])
def test_a_part_of_a_snapshot_is_none(part: slice) -> None:
    """A cut head or tail is noticed."""
    records = list(snapshot_records(some_topics(3)))

    with pytest.raises(MetadataFormatError):
        restore(records[part], end_offset=0)

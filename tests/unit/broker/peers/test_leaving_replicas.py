"""Replicas that are to go and still count are known while a newcomer is on its way."""

import pytest

from tidemill.broker.peers.leaving_replicas import leaving, to_go
from tidemill.metadata.image import Shard
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import NO_TOPIC_ID


def key(number: int, directory: int = 1) -> ReplicaKey:
    return ReplicaKey(BrokerId(number), DirectoryId(bytes([directory]) * 16))


def shard(replicas: tuple[ReplicaKey, ...], previous: tuple[ReplicaKey, ...]) -> Shard:
    return Shard(
        shard_id=ShardId(1),
        topic_id=NO_TOPIC_ID,
        first_partition=0,
        partition_count=1,
        initial_voters=replicas,
        replicas=replicas,
        previous=previous,
    )


MOVED = shard((key(4), key(2), key(3)), (key(1), key(2), key(3)))


@pytest.mark.parametrize(
    ("lagging", "gone", "counts"),
    [((4,), [1], [1]), ((4, 1), [1], []), ((), [], []), ((2,), [], [])],
    ids=["on its way", "removed already", "there", "another one lags"],
)
def test_a_former_replica_counts_until_the_newcomer_is_in_sync(
    lagging: tuple[int, ...], gone: list[int], counts: list[int]
) -> None:
    def is_lagging(broker_id: BrokerId) -> bool:
        return broker_id in lagging

    assert gone == [voter.broker_id for voter in to_go(MOVED, is_lagging)]
    assert counts == [voter.broker_id for voter in leaving(MOVED, is_lagging)]


def test_a_broker_with_another_directory_is_not_among_those_to_go() -> None:
    """It would be listed twice."""
    replaced = shard((key(1, 2), key(2)), (key(1), key(2)))

    assert [] == to_go(replaced, lambda _: True)


def test_without_replicas_of_before_nothing_is_to_go() -> None:
    assert [] == to_go(shard((key(1), key(2)), ()), lambda _: True)

"""Transfers of leadership to the preferred leaders."""

import pytest

from tests.unit.metadata.controller_world import Cluster
from tidemill.metadata.leadership import (
    TRANSFERS_MAX,
    Election,
    elect,
    election_type_problem,
    imbalance,
    preferred_leader,
    rebalance_interval_s,
)
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.shard import ShardId

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
ALL = frozenset((ONE, TWO, THREE))


def three_shards() -> Cluster:
    """
    Return a cluster with topic t, whose shards 1, 2 and 3 have two partitions each and the preferred leaders 1, 2 and
    3.
    """
    cluster = Cluster(brokers=3)
    rings = [(ONE, TWO, THREE), (TWO, THREE, ONE), (THREE, ONE, TWO)]
    cluster.create("t", assignments=tuple((partition, rings[partition // 2]) for partition in range(6)))
    return cluster


def everywhere(leader: BrokerId) -> dict[ShardId, BrokerId]:
    return {ShardId(number): leader for number in range(1, 4)}


def test_shards_move_to_their_live_preferred_leaders() -> None:
    """A shard keeps its leader while its preferred leader is down, and a shard without a leader is left out."""
    image = three_shards().image
    leaders = everywhere(ONE)

    moves = [
        imbalance(image, leaders, ALL),
        imbalance(image, leaders, frozenset((ONE, TWO))),
        imbalance(image, {ShardId(2): TWO}, ALL),
        imbalance(image, {ShardId(2): THREE, ShardId(99): ONE}, ALL),
    ]

    assert moves == [[(2, TWO), (3, THREE)], [(2, TWO)], [], [(2, TWO)]]


def test_a_balanced_cluster_needs_no_transfers() -> None:
    """Once the planned transfers are done, the next check plans none."""
    image = three_shards().image
    leaders = everywhere(ONE)

    leaders.update(imbalance(image, leaders, ALL))

    assert imbalance(image, leaders, ALL) == []
    assert leaders == {shard_id: preferred_leader(image.shards[shard_id]) for shard_id in leaders}


def test_the_transfers_of_one_check_are_limited() -> None:
    """A broker that has restarted and should lead thousands of shards does not receive all of them in one check."""
    cluster = Cluster(brokers=2)
    assignments = tuple((partition, (ONE, TWO) if partition % 2 else (TWO, ONE)) for partition in range(2_400))
    cluster.create("t", assignments=assignments)
    leaders = dict.fromkeys(cluster.image.shards, ONE)

    moves = imbalance(cluster.image, leaders, ALL)

    assert len(moves) == TRANSFERS_MAX < sum(preferred_leader(s) == TWO for s in cluster.image.shards.values())


@pytest.mark.parametrize(
    ("settings", "interval_s"),
    [
        ({}, 300),
        ({"leader.imbalance.check.interval.seconds": "7"}, 7),
        ({"auto.leader.rebalance.enable": "false"}, None),
    ],
)
def test_the_check_interval_is_configurable(settings: dict[str, str], interval_s: int | None) -> None:
    """The check interval is set by Kafka's configuration keys, and its default is Kafka's."""
    assert interval_s == rebalance_interval_s(BrokerLayers(static=settings))


def test_an_election_is_answered_per_partition_and_moves_shards() -> None:
    """An election for one partition of a shard transfers the leadership of both its partitions; a partition that needs
    no election, or cannot have one, gets an error.
    """
    image = three_shards().image
    leaders = {ShardId(1): ONE, ShardId(2): ONE, ShardId(3): ONE}
    live = frozenset((ONE, TWO))

    moves, elections = elect(image, leaders, live, [("t", [0, 2, 3, 4, 6]), ("none", [0])])

    assert moves == [(2, TWO)]
    codes = [(e.topic, e.partition, 0 if e.problem is None else e.problem.error_code) for e in elections]
    assert codes == [
        ("t", 0, errors.ELECTION_NOT_NEEDED),
        ("t", 2, errors.NONE),
        ("t", 3, errors.NONE),
        ("t", 4, errors.PREFERRED_LEADER_NOT_AVAILABLE),
        ("t", 6, errors.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", 0, errors.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_an_election_of_all_partitions_omits_those_without_need() -> None:
    """The response leaves out partitions that their preferred leader already leads."""
    image = three_shards().image
    leaders = {ShardId(0): ONE, ShardId(1): ONE, ShardId(2): TWO}

    moves, elections = elect(image, leaders | {ShardId(3): TWO}, ALL, None)
    leaderless = elect(image, leaders, ALL, None)

    assert (moves, elections) == ([(3, THREE)], [Election("t", 4), Election("t", 5)])
    assert leaderless[0] == []
    assert [e.problem.error_code for e in leaderless[1] if e.problem] == [errors.PREFERRED_LEADER_NOT_AVAILABLE] * 2


def test_an_unclean_election_moves_nothing() -> None:
    """
    An unclean election transfers no leadership: a shard with a leader needs no election, and without one, an unclean
    election would lose acknowledged records.
    """
    image = three_shards().image
    leaders = {
        ShardId(0): ONE,
        ShardId(1): ONE,
        ShardId(2): ONE,
    }  # shard 2 is not led by its preferred leader; shard 3 has no leader

    moves, elections = elect(image, leaders, ALL, [("t", [0, 2, 4, 6])], is_unclean=True)
    everywhere = elect(image, leaders, ALL, None, is_unclean=True)

    assert ([], []) == (moves, everywhere[0])
    assert [
        errors.ELECTION_NOT_NEEDED,
        errors.ELECTION_NOT_NEEDED,
        errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
    ] == [e.problem.error_code for e in elections if e.problem]
    assert [("t", 4), ("t", 5)] == [(e.topic, e.partition) for e in everywhere[1] if e.topic == "t"]
    assert elections[2].problem is not None and "lose acknowledged records" in elections[2].problem.message


def test_an_unknown_election_type_is_refused() -> None:
    """The error message contains the number of the unknown election type."""
    problems = [election_type_problem(election_type) for election_type in (0, 1, 2)]

    assert [None, None] == problems[:2]
    assert problems[2] is not None and problems[2].error_code == errors.INVALID_REQUEST
    assert "election type 2 is unknown" in problems[2].message

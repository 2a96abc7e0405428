"""Kafka's reassignments of partitions as moves of shards."""

from typing import Any

import pytest

from tests.unit.metadata.controller_world import Cluster, voter
from tidemill.metadata.broker_states import SetPresence
from tidemill.metadata.metadata_records import RemoveBrokerRecord
from tidemill.metadata.partition_reassignments import Reassigning, Reassignments, reassigning, reassignments
from tidemill.metadata.reassignments import Move, PlanMoves
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.broker_state import Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId

FIRST, SECOND = ShardId(1), ShardId(2)
THREE = (BrokerId(1), BrokerId(2), BrokerId(3))


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


@pytest.fixture
def cluster() -> Cluster:
    """Five brokers, and the topic t: partitions 0 and 1 are one shard, and 2 is another, on brokers 1, 2 and 3."""
    made = Cluster(brokers=5)
    created = made.create("t", assignments=((0, THREE), (1, THREE), (2, brokers(2, 3, 1))))
    assert created.problem is None
    assert [2, 1] == [len(numbers) for _, numbers in made.ranges("t")]
    return made


def wanted(cluster: Cluster, goals: dict[int, tuple[int, ...] | None], **more: Any) -> Reassignments:
    voters = more.pop("voters", lambda shard_id: cluster.image.shards[shard_id].replicas)
    asked = [("t", number, None if goal is None else brokers(*goal)) for number, goal in goals.items()]
    return reassignments(cluster.image, asked, voters, **more)


def moves(found: Reassignments) -> dict[int, tuple[int, ...]]:
    return {move.shard_id: move.brokers for move in found.moves}


def codes(found: Reassignments) -> dict[int, int]:
    return {number: problem.error_code for (_, number), problem in sorted(found.problems.items())}


def plan(cluster: Cluster, shard_id: int, *ids: int) -> None:
    move = Move(shard_id=ShardId(shard_id), brokers=brokers(*ids), reason=Reason.USER)
    assert (None,) == cluster.do(PlanMoves(moves=(move,))).problems


def test_all_partitions_of_a_shard_are_one_move(cluster: Cluster) -> None:
    """The move is a user's, is for the replicas that are planned now, and says whether another one is under way."""
    found = wanted(cluster, {0: (4, 2, 3), 1: (4, 2, 3)})

    (move,) = found.moves
    assert {} == found.problems
    assert (FIRST, brokers(4, 2, 3), Reason.USER) == (move.shard_id, move.brokers, move.reason)
    assert (cluster.image.shards[FIRST].replicas, False) == (move.expected, move.is_under_way)


def test_a_move_that_replaces_one_under_way_says_so(cluster: Cluster) -> None:
    """Otherwise the shard would forget where it came from."""
    plan(cluster, FIRST, 4, 2, 3)

    found = wanted(cluster, {0: (5, 2, 3), 1: (5, 2, 3)}, voters=lambda _: tuple(map(voter, (1, 2, 3))))

    assert [True] == [move.is_under_way for move in found.moves]


@pytest.mark.parametrize(
    "goals", [{0: (4, 2, 3)}, {0: (4, 2, 3), 1: (5, 2, 3)}, {0: None, 1: (4, 2, 3)}, {0: None}], ids=str
)
def test_partitions_of_a_shard_go_together(cluster: Cluster, goals: dict[int, tuple[int, ...] | None]) -> None:
    """A part of a shard cannot move.  The refusal names the partitions that go together; other shards are moved."""
    plan(cluster, FIRST, 1, 2, 5)
    was_there = {FIRST: tuple(map(voter, (1, 2, 3))), SECOND: cluster.image.shards[SECOND].replicas}

    found = wanted(cluster, goals | {2: (2, 3, 4)}, voters=was_there.get)

    assert dict.fromkeys(goals, errors.INVALID_REPLICA_ASSIGNMENT) == codes(found)
    assert all("partitions 0 to 1 of t are one shard" in problem.message for problem in found.problems.values())
    assert {SECOND: (2, 3, 4)} == moves(found)


def test_the_leader_that_most_partitions_name_is_preferred(cluster: Cluster) -> None:
    """The same brokers in another order are a change of the preferred leader; the rest stay as they are planned."""
    made = Cluster(brokers=3)
    made.create("t", assignments=tuple((number, THREE) for number in range(4)))

    alone = wanted(made, {0: (2, 1, 3)})
    tie = wanted(made, {0: (2, 1, 3), 1: (2, 3, 1)})
    most = wanted(made, {0: (3, 1, 2), 1: (2, 3, 1), 2: (2, 3, 1), 3: (2, 1, 3)})

    assert {FIRST: (1, 2, 3)} == moves(alone)
    assert {FIRST: (2, 1, 3)} == moves(tie), "the lowest partition decides"
    assert {FIRST: (2, 3, 1)} == moves(most)


def test_an_assignment_without_a_broker_is_refused(cluster: Cluster) -> None:
    """An empty list is not null: it does not cancel."""
    found = wanted(cluster, {2: ()})

    assert ({2: errors.INVALID_REPLICA_ASSIGNMENT}, {}) == (codes(found), moves(found))


def test_unknown_and_repeated_partitions_are_refused(cluster: Cluster) -> None:
    """Each has its own error; nothing of a shard moves that is named twice."""
    asked = [("t", 2, brokers(4, 2, 3)), ("t", 2, brokers(5, 2, 3)), ("t", 3, THREE), ("no", 0, THREE)]

    found = reassignments(cluster.image, asked, lambda _: None)

    assert [] == found.moves
    assert {
        ("t", 2): errors.INVALID_REQUEST,
        ("t", 3): errors.UNKNOWN_TOPIC_OR_PARTITION,
        ("no", 0): errors.UNKNOWN_TOPIC_OR_PARTITION,
    } == {partition: problem.error_code for partition, problem in found.problems.items()}


# ---- the replication factor


def test_the_replication_factor_changes_for_the_whole_topic(cluster: Cluster) -> None:
    """Topics have one replication factor, so a shard whose number changes is planned only if the others get it, too."""
    found = wanted(cluster, {0: (1, 2), 1: (1, 2), 2: (4, 5, 1)})

    assert {FIRST: True, SECOND: False} == {move.shard_id: move.is_for_topic for move in found.moves}


def test_a_request_can_forbid_another_replication_factor(cluster: Cluster) -> None:
    """Only the shards whose number changes are refused."""
    found = wanted(cluster, {0: (1, 2), 1: (1, 2), 2: (4, 5, 1)}, may_change_factor=False)

    assert {0: errors.INVALID_REPLICATION_FACTOR, 1: errors.INVALID_REPLICATION_FACTOR} == codes(found)
    assert {SECOND: (4, 5, 1)} == moves(found)


# ---- cancelling


def test_null_goes_back_to_where_the_shard_was(cluster: Cluster) -> None:
    """Both partitions of the shard are named.  A cancelled move keeps the way back of the first one."""
    plan(cluster, FIRST, 4, 5)

    found = wanted(cluster, {0: None, 1: None}, voters=lambda _: tuple(map(voter, (1, 2, 3))), may_change_factor=False)

    assert {FIRST: (1, 2, 3)} == moves(found)
    assert [(True, False)] == [(move.is_under_way, move.is_for_topic) for move in found.moves]


def test_a_member_that_is_gone_is_replaced_by_one_of_the_goal(cluster: Cluster) -> None:
    """A goal with a dead member is never reached.  One that is only silent is expected back."""
    plan(cluster, FIRST, 4, 5, 3)
    for broker_id, presence in ((1, Presence.GONE), (2, Presence.SILENT), (4, Presence.GONE)):
        cluster.do(SetPresence(broker_id=BrokerId(broker_id), presence=Presence.SILENT))
        cluster.do(SetPresence(broker_id=BrokerId(broker_id), presence=presence))

    found = wanted(cluster, {0: None, 1: None}, voters=lambda _: tuple(map(voter, (1, 2, 3))))

    assert {FIRST: (5, 2, 3)} == moves(found)


def test_a_member_that_was_removed_is_replaced(cluster: Cluster) -> None:
    plan(cluster, FIRST, 4, 2, 3)
    cluster.controller.replay([RemoveBrokerRecord(BrokerId(1))])

    found = wanted(cluster, {0: None, 1: None}, voters=lambda _: tuple(map(voter, (1, 2, 3))))

    assert {FIRST: (4, 2, 3)} == moves(found)


def test_a_cancelled_move_leaves_no_fewer_replicas_than_the_shard_had(cluster: Cluster) -> None:
    """A member that was removed has no substitute if the goal has no other brokers."""
    plan(cluster, FIRST, 2, 3)
    cluster.controller.replay([RemoveBrokerRecord(BrokerId(1))])

    found = wanted(cluster, {0: None, 1: None}, voters=lambda _: tuple(map(voter, (1, 2, 3))))

    assert [] == found.moves
    assert dict.fromkeys(range(2), errors.INVALID_REPLICA_ASSIGNMENT) == codes(found)


def test_nothing_to_cancel(cluster: Cluster) -> None:
    """A shard that is at its goal has nothing under way, although it remembers where it was before."""
    plan(cluster, FIRST, 4, 2, 3)

    found = wanted(cluster, {0: None, 1: None, 2: None})

    assert [] == found.moves
    assert dict.fromkeys(range(3), errors.NO_REASSIGNMENT_IN_PROGRESS) == codes(found)


# ---- what is under way


def keys(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(map(voter, ids))


def test_what_is_added_and_what_is_to_go(cluster: Cluster) -> None:
    """The goal comes first, then the voters that leave.  Another order of the same brokers is nothing under way."""
    plan(cluster, FIRST, 4, 1, 5)
    shard = cluster.image.shards[FIRST]

    assert Reassigning((4, 1, 5, 2, 3), (4, 5), (2, 3)) == reassigning(shard, keys(1, 2, 3))
    assert Reassigning((4, 1, 5, 3), (5,), (3,)) == reassigning(shard, keys(1, 3, 4))
    assert reassigning(shard, keys(5, 4, 1)) is None


def test_a_shard_whose_voters_are_not_known_yet_is_where_it_was(cluster: Cluster) -> None:
    """A new controller must not report a move as complete only because no leader has reported yet."""
    plan(cluster, FIRST, 4, 2, 3)

    first, second = (reassigning(cluster.image.shards[it], None) for it in (FIRST, SECOND))

    assert Reassigning((4, 2, 3, 1), (4,), (1,)) == first
    assert second is None

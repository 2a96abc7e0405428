"""Plans of replicas, as users and the planner send them (`docs/cluster.md`)."""

from typing import Any

import pytest

from tests.unit.metadata.controller_world import Cluster, admission, voter
from tidemill.metadata.broker_states import SetDrain, SetPresence
from tidemill.metadata.reassignments import Move, PlanMoves
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId

SHARD = ShardId(1)


def cluster(**kind: Any) -> Cluster:
    """Return a cluster with one shard, on broker 1."""
    made = Cluster(brokers=4, **kind)
    assert made.create("t", assignments=((0, (BrokerId(1),)),)).problem is None
    return made


def move(*brokers: int, shard_id: int = SHARD, reason: Reason = Reason.COUNT, **more: Any) -> Move:
    return Move(shard_id=ShardId(shard_id), brokers=tuple(map(BrokerId, brokers)), reason=reason, **more)


def plan(made: Cluster, *moves: Move) -> list[tuple[int, str] | None]:
    return [*made.do(PlanMoves(moves=moves)).problems]


def goal(made: Cluster) -> tuple[list[int], list[int], Reason]:
    shard = made.image.shards[SHARD]
    return [key.broker_id for key in shard.replicas], [key.broker_id for key in shard.previous], shard.reason


def two_shards() -> Cluster:
    """Return a cluster with a topic of two shards, on brokers 1 and 2."""
    made = Cluster(brokers=4)
    assert made.create("t", assignments=((0, (BrokerId(1),)), (1, (BrokerId(2),)))).problem is None
    return made


def goals(made: Cluster) -> list[list[int]]:
    return [[key.broker_id for key in made.image.shards[it].replicas] for it in made.image.topics["t"].shard_ids]


def test_a_goal_keeps_what_was_planned_before() -> None:
    """
    A cancelled move returns to `previous`, which is where the shard was last.  While goal after goal is replaced, none
    of them reached, that is where it was before the first.
    """
    made = cluster()

    plan(made, move(2))
    first = goal(made)
    plan(made, move(3, is_under_way=True))
    second = goal(made)
    plan(made, move(4, reason=Reason.DRAIN))

    assert [first, second, goal(made)] == [
        ([2], [1], Reason.COUNT),
        ([3], [1], Reason.COUNT),
        ([4], [3], Reason.DRAIN),
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (None, "broker 2 is down, and nothing can be copied to it; start it, or name another one"),
        (SetPresence(broker_id=BrokerId(2), presence=Presence.GONE), "broker 2 is gone, and its replicas are placed"),
        (SetDrain(broker_id=BrokerId(2), drain=Drain.ALL), "broker 2 is drained; name another one, or run"),
    ],
)
def test_a_user_moves_nothing_to_a_broker_that_could_not_keep_it(change: Any, why: str) -> None:
    """
    The move would never end, or the planner would undo it at once.  A broker that has the shard already may be named:
    that is how a move beside a broker that is down is asked for.  The planner knows by itself which brokers are well,
    and a cancelled move returns to any.
    """
    made = cluster()
    if change is None:
        made.live = frozenset({BrokerId(1), BrokerId(3)})
    else:
        made.do(change)

    (refused,) = plan(made, move(1, 2, must_arrive=True))
    planner = plan(made, move(2))
    kept = plan(made, move(3, 2, must_arrive=True))
    away = plan(made, move(3, must_arrive=True))
    (again,) = plan(made, move(3, 2, must_arrive=True))
    returned = plan(made, move(3, 2, must_arrive=True, is_under_way=True))

    assert refused is not None and refused[0] == errors.INVALID_REPLICA_ASSIGNMENT and why in refused[1]
    assert again is not None and why in again[1]
    assert [[None]] * 4 == [planner, kept, away, returned]


@pytest.mark.parametrize(
    "change",
    [
        SetPresence(broker_id=BrokerId(2), presence=Presence.SILENT),
        SetDrain(broker_id=BrokerId(2), drain=Drain.LEADERS),
    ],
)
def test_a_user_may_move_to_a_broker_that_has_just_come_back_or_leads_nothing(change: Any) -> None:
    """Both are copied to, and will vote."""
    made = cluster()
    made.do(change)

    assert [None] == plan(made, move(2, must_arrive=True))


def test_a_goal_that_is_not_reached_without_a_move_is_one_to_return_to() -> None:
    """A shard whose member has a new directory is under way, although it has no former replicas."""
    made = cluster()

    plan(made, move(2, is_under_way=True))

    assert goal(made) == ([2], [1], Reason.COUNT)


def test_a_new_directory_ends_the_way_back_of_a_former_move() -> None:
    """
    Its copy is under way like a move.  A cancel would return to brokers that the shard left long ago, and which may
    have left the cluster since.
    """
    made = cluster()
    plan(made, move(2))
    moved = goal(made)

    assert made.do(admission(DirectoryId(b"y" * 16), 2)).problem is None

    assert (moved, goal(made)) == (([2], [1], Reason.COUNT), ([2], [], Reason.COUNT))


def test_a_user_can_pin_a_shard_where_it_is() -> None:
    """
    A user's goal that is the present one already is recorded with its reason, which no later reason undoes, and with
    the way back that the shard had.  The same goal again is no record.
    """
    made = cluster()
    plan(made, move(2))

    plan(made, move(2, reason=Reason.USER))
    pinned, offset = goal(made), made.image.offset
    plan(made, move(2, reason=Reason.USER))

    assert pinned == ([2], [1], Reason.USER)
    assert made.image.offset == offset


def test_a_move_that_was_planned_on_another_image_is_dropped() -> None:
    """A plan counts only while the shard has the replicas, in the same directories, that it was made for."""
    made = cluster()
    other_disk = ReplicaKey(BrokerId(1), DirectoryId(b"x" * 16))

    (by_broker,) = plan(made, move(3, expected=(voter(2),)))
    (by_directory,) = plan(made, move(3, expected=(other_disk,)))
    (fitting,) = plan(made, move(2, expected=(voter(1),)))

    assert by_broker is not None and by_broker[0] == errors.INVALID_REPLICA_ASSIGNMENT
    assert "when its replicas were on brokers [2], and now they are on [1]; plan again" in by_broker[1]
    assert by_directory is not None and "got another data directory" in by_directory[1]
    assert fitting is None and goal(made)[0] == [2]


@pytest.mark.parametrize(
    ("wanted", "error_code", "says"),
    [
        (move(2, shard_id=9), errors.UNKNOWN_TOPIC_OR_PARTITION, "there is no shard 9"),
        (move(), errors.INVALID_REPLICA_ASSIGNMENT, "name at least one broker"),
        (move(2, 2), errors.INVALID_REPLICA_ASSIGNMENT, "a broker is named twice"),
        (move(2, 9), errors.INVALID_REPLICA_ASSIGNMENT, "broker 9 is not in this cluster; its brokers are 1,2,3,4"),
        (
            move(2, shard_id=METADATA_SHARD, reason=Reason.USER),
            errors.INVALID_REPLICA_ASSIGNMENT,
            "the cluster places the replicas of its metadata itself",
        ),
    ],
)
def test_a_refused_move_does_not_affect_the_others(wanted: Move, error_code: int, says: str) -> None:
    """Each move of a command is decided on its own, and its problem is at its place in the answer."""
    made = cluster()

    problems = plan(made, wanted, move(2))

    assert problems[0] is not None and problems[0][0] == error_code and says in problems[0][1]
    assert problems[1] is None and goal(made)[0] == [2]


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ((), "but partition 1 would keep 1"),
        ((move(3, 9, shard_id=2, is_for_topic=True),), "but partition 1 would keep 1"),
        ((move(2, 3, 4, shard_id=2, is_for_topic=True),), "but partition 1 would have 3"),
        ((move(3, shard_id=2),), "but partition 1 would have 1"),
    ],
    ids=["left out", "refused", "another number", "moved"],
)
def test_a_topics_number_of_replicas_changes_for_all_shards_or_for_none(others: tuple[Move, ...], says: str) -> None:
    """A topic has one replication factor.  Half of a change would leave it with two, and shards of new partitions."""
    made = two_shards()
    before = goals(made)

    problems = plan(made, move(1, 2, is_for_topic=True), *others)

    (code, why) = problems[0] or (0, "")
    assert errors.INVALID_REPLICA_ASSIGNMENT == code and f"partition 0 of t would have 2 replicas, {says}" in why
    assert all(problem is not None for it, problem in zip(others, problems[1:], strict=True) if it.is_for_topic)
    assert before[0] == goals(made)[0]


def test_all_shards_of_a_topic_get_another_number_of_replicas_together() -> None:
    made = two_shards()

    problems = plan(made, move(1, 2, is_for_topic=True), move(3, 4, shard_id=2, is_for_topic=True))

    assert ([None, None], [[1, 2], [3, 4]]) == (problems, goals(made))


def test_a_shard_is_moved_once_by_a_command() -> None:
    """The second move of a shard in one command would rest on an image without the first."""
    made = cluster()

    first, second = plan(made, move(2), move(3))

    assert first is None and second is not None and "the shard is named twice" in second[1]
    assert goal(made)[0] == [2]


def test_the_cluster_moves_its_metadata() -> None:
    """The planner replaces members of the metadata shard, although users cannot move it."""
    made = cluster()
    before = made.image.shards[METADATA_SHARD].replicas

    (problem,) = plan(made, move(2, 3, 4, shard_id=METADATA_SHARD, reason=Reason.REPLACE, expected=before))

    assert problem is None
    assert made.replicas("__tidemill_metadata") == [[2, 3, 4]]


def test_moves_need_feature_level_2() -> None:
    """Older brokers cannot read what a move records, and the answer says how to raise the level."""
    made = cluster(level=1)
    offset = made.image.offset

    problems = plan(made, move(2), move(3))

    assert [problem and problem[0] for problem in problems] == [errors.UNSUPPORTED_VERSION] * 2
    assert problems[0] is not None and "run `tidemill cluster upgrade`" in problems[0][1]
    assert made.image.offset == offset


def test_a_new_directory_takes_the_place_of_the_old_one_in_the_way_back() -> None:
    """A cancelled move would otherwise plan a replica in a directory that exists no more."""
    made = cluster()
    plan(made, move(2, reason=Reason.USER))
    made.live = frozenset(map(BrokerId, (2, 3, 4)))
    new = ReplicaKey(BrokerId(1), DirectoryId(b"n" * 16))

    made.do(admission(new.directory_id, new.broker_id, made.live))

    shard = made.image.shards[SHARD]
    assert (shard.replicas, shard.previous, shard.reason) == ((voter(2),), (new,), Reason.USER)
    assert made.warnings == ()

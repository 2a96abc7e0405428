"""Translates Kafka's reassignments of partitions into moves of shards, and moves that are under way back.

Kafka moves each partition by itself.  Here the partitions of a shard have one log and one set of replicas, so a request
must give all of them the same brokers.  Partitions that a request leaves out stay where they are planned.

Each shard is planned or refused by itself, except that a topic's number of replicas changes for all its shards or for
none.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidemill.metadata.image import ClusterImage, Shard, Topic
from tidemill.metadata.reassignments import Move, partitions_text
from tidemill.metadata.result import Problem
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, ReplicaKey, broker_ids
from tidemill.model.broker_state import Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId

Brokers = tuple[BrokerId, ...]
Partition = tuple[str, int]  # topic and number
Voters = Callable[[ShardId], tuple[ReplicaKey, ...] | None]  # in force; None if no leader has told them yet


class Reassigning(NamedTuple):
    """The replicas of a shard that is on its way to its goal."""

    replicas: Brokers  # the goal first, then those that are to go
    adding: Brokers
    removing: Brokers


@dataclass(slots=True)
class Reassignments:
    """What is to be done for a request: one move for each shard, and the partitions that are refused."""

    moves: list[Move] = field(default_factory=list)
    partitions: dict[ShardId, list[Partition]] = field(default_factory=dict)  # those that the request names
    problems: dict[Partition, Problem] = field(default_factory=dict)

    def refuse(self, shard_id: ShardId, problem: Problem) -> None:
        """Refuse all that the request wants of a shard."""
        self.moves = [move for move in self.moves if move.shard_id != shard_id]
        self.problems |= dict.fromkeys(self.partitions[shard_id], problem)


def reassigning(shard: Shard, voters: tuple[ReplicaKey, ...] | None) -> Reassigning | None:
    """
    Return what is under way in a shard; None if it has reached its goal.  As long as no leader has told the voters, as
    after a change of the controller, the shard counts as being where it was before its goal.
    """
    goal, there = broker_ids(shard.replicas), broker_ids(voters or shard.previous or shard.replicas)
    adding = tuple(broker_id for broker_id in goal if broker_id not in there)
    removing = tuple(broker_id for broker_id in there if broker_id not in goal)
    return Reassigning((*goal, *removing), adding, removing) if adding or removing else None


def untold_problem(shard: Shard, voters: tuple[ReplicaKey, ...] | None) -> Problem | None:
    """
    Return why a move cannot be cancelled now: it may have ended, which only the shard's leader knows.  A way back would
    then be a new move.
    """
    if voters is not None or reassigning(shard, None) is None:
        return None
    why = (
        f"no leader of shard {shard.shard_id} has told a new controller yet whether its move has ended; try again in "
        "some seconds"
    )
    return Problem(errors.REQUEST_TIMED_OUT, why)


def reassignments(
    image: ClusterImage,
    wanted: Iterable[tuple[str, int, Brokers | None]],
    voters: Voters,
    *,
    may_change_factor: bool = True,
) -> Reassignments:
    """
    Return the moves for `wanted`: topic, partition, and its brokers, the preferred leader first; None cancels what is
    under way.  Unless `may_change_factor`, each partition keeps its number of replicas.
    """
    result = Reassignments()
    by_shard: dict[ShardId, dict[int, Brokers | None]] = {}
    for name, number, brokers in wanted:
        topic = image.topic(name)
        shard_id = None if topic is None else topic.shard_of(number)
        if shard_id is None:
            why = f"there is no partition {number} of a topic {name}"
            result.problems[name, number] = Problem(errors.UNKNOWN_TOPIC_OR_PARTITION, why)
            continue
        named = by_shard.setdefault(shard_id, {})
        if number in named:
            why = f"partition {number} of {name} is named twice"
            result.problems[name, number] = Problem(errors.INVALID_REQUEST, why)
        named[number] = brokers
        result.partitions.setdefault(shard_id, []).append((name, number))
    for shard_id, named in by_shard.items():
        shard = image.shards[shard_id]
        in_force = voters(shard_id)
        move = _move(image, shard, named, reassigning(shard, in_force) is not None)
        if isinstance(move, Move) and not move.must_arrive:
            move = untold_problem(shard, in_force) or move
        if isinstance(move, Move) and move.is_for_topic and not may_change_factor:
            of_topic = f"{partitions_text(shard.partitions)} of {_topic(image, shard).name}"
            why = f"{of_topic} must keep the number of replicas, {len(shard.replicas)}: the request forbids another one"
            move = Problem(errors.INVALID_REPLICATION_FACTOR, why)
        if isinstance(move, Problem):
            result.refuse(shard_id, move)
        elif not any(partition in result.problems for partition in result.partitions[shard_id]):
            result.moves.append(move)
    return result


def _move(image: ClusterImage, shard: Shard, named: Mapping[int, Brokers | None], is_under_way: bool) -> Move | Problem:
    if any(brokers is not None and not brokers for brokers in named.values()):
        return Problem(errors.INVALID_REPLICA_ASSIGNMENT, "an assignment names no broker")
    planned = tuple(broker_ids(shard.replicas))
    goals = [named.get(number, planned) for number in shard.partitions]
    assigned = [goal for goal in goals if goal is not None]
    if len({frozenset(goal) for goal in assigned}) + (len(assigned) < len(goals)) > 1:
        return Problem(errors.INVALID_REPLICA_ASSIGNMENT, _go_together(image, shard))
    if assigned:
        brokers = _most_named(assigned)
    elif not is_under_way or not shard.previous:
        why = f"no replica of {partitions_text(shard.partitions)} of {_topic(image, shard).name} is on its way"
        return Problem(errors.NO_REASSIGNMENT_IN_PROGRESS, why)
    else:
        former = former_brokers(image, shard)
        if isinstance(former, Problem):
            return former
        brokers = former
    return Move(
        shard_id=shard.shard_id,
        brokers=brokers,
        reason=Reason.USER,
        expected=shard.replicas,
        is_under_way=is_under_way,
        must_arrive=bool(assigned),
        is_for_topic=bool(assigned) and len(brokers) != len(shard.replicas),  # a way back is always open
    )


def _most_named(goals: Sequence[Brokers]) -> Brokers:
    """Return the goal that most partitions name, among those with the preferred leader that most partitions name."""
    ((leader, _),) = Counter(goal[0] for goal in goals).most_common(1)
    ((brokers, _),) = Counter(goal for goal in goals if goal[0] == leader).most_common(1)
    return brokers


def former_brokers(image: ClusterImage, shard: Shard) -> Brokers | Problem:
    """
    Return the brokers to which a cancelled move returns: those before the goal.  A broker that has left since, or is
    gone, is replaced by one of the goal: a goal with a dead member is never reached.  Return a problem if there is
    none: a cancelled move must not leave the shard with fewer replicas.
    """
    usable = {it.broker_id for it in image.registered() if it.presence is not Presence.GONE}
    former = broker_ids(shard.previous)
    substitutes = [it for it in broker_ids(shard.replicas) if it in usable and it not in former]
    brokers = []
    for broker_id in former:
        if broker_id in usable:
            brokers.append(broker_id)
        elif substitutes:
            brokers.append(substitutes.pop(0))
        else:
            why = (
                f"shard {shard.shard_id} cannot return to brokers {former}, because broker {broker_id} has left or is "
                "gone: move it to the brokers where it is to be"
            )
            return Problem(errors.INVALID_REPLICA_ASSIGNMENT, why)
    return tuple(brokers)


def _go_together(image: ClusterImage, shard: Shard) -> str:
    return (
        f"{partitions_text(shard.partitions)} of {_topic(image, shard).name} are one shard, whose replicas move "
        "together: name all of them, with the same brokers"
    )


def _topic(image: ClusterImage, shard: Shard) -> Topic:
    return image.topics_by_id[shard.topic_id]

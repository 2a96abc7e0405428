"""Decides which brokers shards are to have their replicas on: goals, which the shards' leaders approach step by step.

A goal replaces the one before it, whether that was reached or not.  So a move is cancelled by planning the former
replicas again, which the shard keeps as `previous`.

Each move is decided by itself, except those that change a topic's number of replicas: all shards of the topic get the
new number, or none.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidemill.metadata.feature_levels import ELASTIC_CLUSTER, refusal_below
from tidemill.metadata.image import ClusterImage, Shard
from tidemill.metadata.metadata_records import ReplicasRecord
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, ReplicaKey, broker_ids, broker_list
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.model.topic import TopicId

_ShardOfFactor = dict[int, Shard]  # for each number of replicas in a topic after a command: a shard that has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A goal for one shard: its replicas on `brokers`, the preferred leader first."""

    shard_id: ShardId
    brokers: tuple[BrokerId, ...]
    reason: Reason
    expected: tuple[ReplicaKey, ...] | None = None  # the planned replicas that the goal was made for; None: any
    is_under_way: bool = False  # the present goal is not reached, so a cancelled move returns to what was before it
    must_arrive: bool = False  # it is refused if a broker that is to get a copy is down, gone or drained
    is_for_topic: bool = False  # it changes the topic's number of replicas, and is refused if other shards keep theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMoves:
    """Plan the replicas of shards."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMoves:
    problems: tuple[Problem | None, ...]  # one for each move, in their order; None: it is planned


def plan_moves(context: DecisionContext, command: PlanMoves) -> Result[PlannedMoves]:
    """Decide each move by itself, except that a topic's number of replicas changes for all its shards or for none."""
    image = context.image
    below = refusal_below(ELASTIC_CLUSTER, image.feature_level, "moving replicas")
    if below is not None:
        refused = Problem(errors.UNSUPPORTED_VERSION, below)
        return Result((), PlannedMoves(problems=(refused,) * len(command.moves)))
    problems: list[Problem | None] = []
    planned: dict[ShardId, int] = {}  # the number of replicas of each shard that moves
    for move in command.moves:
        problem = _problem(context, move, planned)
        problems.append(problem)
        if problem is None:
            planned[move.shard_id] = len(move.brokers)
    records: list[ReplicasRecord] = []
    topics: dict[TopicId, _ShardOfFactor] = {}
    for number, move in enumerate(command.moves):
        if problems[number] is None and move.is_for_topic:
            problems[number] = _topic_problem(image, move, planned, topics)
        if problems[number] is None:
            records += _records(image, image.shards[move.shard_id], move)
    return Result(tuple(records), PlannedMoves(problems=tuple(problems)))


def _records(image: ClusterImage, shard: Shard, move: Move) -> tuple[ReplicasRecord, ...]:
    replicas = tuple(image.brokers[broker_id].voter for broker_id in move.brokers)
    if (replicas, move.reason) == (shard.replicas, shard.reason):
        return ()
    is_other = replicas != shard.replicas
    is_first = is_other and not (move.is_under_way and shard.previous)  # the present goal is one to return to
    previous = shard.replicas if is_first else shard.previous
    return (ReplicasRecord(shard.shard_id, replicas, previous, move.reason),)


def _problem(context: DecisionContext, move: Move, planned: Collection[ShardId]) -> Problem | None:
    image = context.image
    shard = image.shards.get(move.shard_id)
    if shard is None:
        why = f"there is no shard {move.shard_id}; a deleted topic may have had it"
        return Problem(errors.UNKNOWN_TOPIC_OR_PARTITION, why)
    what = f"replicas of shard {move.shard_id} on brokers {list(move.brokers)} are refused"
    if move.shard_id in planned:
        return Problem(errors.INVALID_REQUEST, f"{what}: the shard is named twice")
    why_not = _refusal(image, move) or _newcomer_problem(context, shard, move)
    if why_not is not None:
        return Problem(errors.INVALID_REPLICA_ASSIGNMENT, f"{what}: {why_not}")
    if move.expected is not None and move.expected != shard.replicas:
        made_for, now = broker_ids(move.expected), broker_ids(shard.replicas)
        why = f"they were planned when its replicas were on brokers {made_for}, and now they are on {now}; plan again"
        if made_for == now:
            why = f"they were planned before a broker of {now} got another data directory; plan again"
        return Problem(errors.INVALID_REPLICA_ASSIGNMENT, f"{what}: {why}")
    return None


def partitions_text(partitions: range) -> str:
    return f"partitions {partitions[0]} to {partitions[-1]}" if len(partitions) > 1 else f"partition {partitions[0]}"


def _topic_problem(
    image: ClusterImage, move: Move, planned: Mapping[ShardId, int], topics: dict[TopicId, _ShardOfFactor]
) -> Problem | None:
    """
    Return why a topic's number of replicas cannot change: a shard is left out, refused, or gets another number.
    `topics` keeps what has been found out about a topic, which may have thousands of shards that all move.
    """
    shard, factor = image.shards[move.shard_id], len(move.brokers)
    topic = image.topics_by_id[shard.topic_id]
    if topic.topic_id not in topics:
        shards = [image.shards[it] for it in topic.shard_ids]
        topics[topic.topic_id] = {planned.get(it.shard_id, len(it.replicas)): it for it in reversed(shards)}
    unlike = [(number, other) for number, other in topics[topic.topic_id].items() if number != factor]
    if not unlike:
        return None
    others_factor, other = unlike[-1]
    verb = "would have" if other.shard_id in planned else "would keep"
    why = (
        f"{partitions_text(shard.partitions)} of {topic.name} would have {factor} "
        f"{'replica' if factor == 1 else 'replicas'}, but {partitions_text(other.partitions)} {verb} {others_factor}: "
        "the partitions of a topic get another number of replicas all together or not at all"
    )
    return Problem(errors.INVALID_REPLICA_ASSIGNMENT, why)


def _newcomer_problem(context: DecisionContext, shard: Shard, move: Move) -> str | None:
    """
    Return why nothing can be copied to a broker that `move` names; None if it can, or need not.  A broker that has the
    shard, or had it before the move that is under way, needs no copy.
    """
    if not move.must_arrive:
        return None
    there = {*broker_ids(shard.replicas), *(broker_ids(shard.previous) if move.is_under_way else ())}
    for broker_id in move.brokers:
        broker = context.image.brokers[broker_id]
        if broker_id in there:
            continue
        if not context.is_live(broker_id):
            return f"broker {broker_id} is down, and nothing can be copied to it; start it, or name another one"
        if broker.presence is Presence.GONE:
            return f"broker {broker_id} is gone, and its replicas are placed on others; wait until it is active again"
        if broker.drain is Drain.ALL:
            return f"broker {broker_id} is drained; name another one, or run `tidemill cluster undrain {broker_id}`"
    return None


def _refusal(image: ClusterImage, move: Move) -> str | None:
    if move.shard_id == METADATA_SHARD and move.reason is Reason.USER:
        return "the cluster places the replicas of its metadata itself"
    if not move.brokers:
        return "name at least one broker"
    if len({*move.brokers}) < len(move.brokers):
        return "a broker is named twice"
    registered = [broker.voter for broker in image.registered()]
    unknown = sorted({*move.brokers} - {voter.broker_id for voter in registered})
    if unknown:
        return f"broker {unknown[0]} is not in this cluster; its brokers are {broker_list(registered)}"
    return None

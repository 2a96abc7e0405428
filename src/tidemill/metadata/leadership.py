"""Who should lead each shard, and which shards to hand over: the preferred leader is the first of the replicas.

A leader that moves costs its clients a moment, so a shard moves only to a broker that lives, and a check hands over so
many at most; the next check goes on.  Who leads is no metadata: it is passed in, as the brokers' leader tables tell it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidemill.metadata.image import ClusterImage, Shard
from tidemill.metadata.result import Problem
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import BrokerLayers, broker_flag, broker_int
from tidemill.model.shard import ShardId

TRANSFERS_MAX: Final = 1_000  # of one check, as in Kafka
PREFERRED: Final = 0  # Kafka's ElectionType
UNCLEAN: Final = 1
Leaders = Mapping[ShardId, BrokerId]


@dataclass(frozen=True, slots=True)
class Election:
    """What becomes of one partition for which an election was asked."""

    topic: str
    partition: int
    problem: Problem | None = None  # also ELECTION_NOT_NEEDED


def preferred_leader(shard: Shard) -> BrokerId:
    return shard.replicas[0].broker_id


def imbalance(image: ClusterImage, leaders: Leaders, live: frozenset[BrokerId]) -> list[tuple[ShardId, BrokerId]]:
    """
    (shard, to) for each shard that is led by another than its preferred leader, which lives; HANDOVERS_MAX at most.
    A shard without a leader elects one for itself.
    """
    moves = []
    for shard_id, leader in sorted(leaders.items()):
        shard = image.shards.get(shard_id)
        if shard is not None and leader != (to := preferred_leader(shard)) and to in live:
            moves.append((shard_id, to))
    return moves[:TRANSFERS_MAX]


def rebalance_interval_s(layers: BrokerLayers) -> int | None:
    """How often to look for `imbalance`; None: never by itself."""
    if not broker_flag(layers, "auto.leader.rebalance.enable"):
        return None
    return broker_int(layers, "leader.imbalance.check.interval.seconds")


def election_type_problem(election_type: int) -> Problem | None:
    if election_type in (PREFERRED, UNCLEAN):
        return None
    return Problem(
        errors.INVALID_REQUEST,
        f"election type {election_type} is unknown; {PREFERRED} (preferred) and {UNCLEAN} (unclean) are known",
    )


def elect(
    image: ClusterImage,
    leaders: Leaders,
    live: frozenset[BrokerId],
    wanted: Sequence[tuple[str, Sequence[int]]] | None,
    *,
    is_unclean: bool = False,
) -> tuple[list[tuple[ShardId, BrokerId]], list[Election]]:
    """
    ElectLeaders: the (shard, to) to hand over, each once, and what is answered when that is done.  `wanted`: (topic,
    partitions); None: all, and then only those that are not led as they should be are answered, as in Kafka.
    Unclean elections move nothing: what has a leader needs none, and what has none waits for a majority.
    """
    everything = wanted is None
    if wanted is None:
        wanted = [(topic.name, range(topic.partition_count)) for topic in image.topics.values()]
    moves: dict[ShardId, BrokerId] = {}
    elections: list[Election] = []
    for topic, partitions in wanted:
        for partition in partitions:
            shard = image.shard_of(topic, partition)
            if shard is None:
                missing = Problem(errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}")
                elections.append(Election(topic, partition, missing))
                continue
            name = f"{topic}-{partition}"
            leader = leaders.get(shard.shard_id)
            problem = _unclean_problem(name, leader) if is_unclean else _preferred_problem(name, shard, leader, live)
            if problem is None:
                moves[shard.shard_id] = preferred_leader(shard)
            elif everything and problem.error_code == errors.ELECTION_NOT_NEEDED:
                continue
            elections.append(Election(topic, partition, problem))
    return list(moves.items()), elections


def _unclean_problem(name: str, leader: BrokerId | None) -> Problem:
    if leader is not None:
        return Problem(errors.ELECTION_NOT_NEEDED, f"broker {leader} leads {name} already")
    return Problem(
        errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        f"{name} has no leader, and an unclean one would lose acknowledged records: "
        "it elects one itself when a majority of its replicas is up",
    )


def _preferred_problem(name: str, shard: Shard, leader: BrokerId | None, live: frozenset[BrokerId]) -> Problem | None:
    to = preferred_leader(shard)
    if leader == to:
        return Problem(errors.ELECTION_NOT_NEEDED, f"broker {to} leads {name} already")
    if to not in live:
        return Problem(errors.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {to}, which should lead {name}, is down")
    if leader is None:
        return Problem(
            errors.PREFERRED_LEADER_NOT_AVAILABLE,
            f"{name} has no leader that could hand over to broker {to}; try again when it has one",
        )
    return None

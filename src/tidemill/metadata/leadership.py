"""Decides which shards should transfer leadership to their preferred leader, which is the first of their replicas.

A leadership transfer interrupts clients briefly.  Therefore leadership moves only to live brokers, and each check plans
a limited number of transfers; the next check plans the rest.  The current leaders are not part of the metadata: callers
pass them in from the brokers' leader tables.
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

TRANSFERS_MAX: Final = 1_000  # leadership transfers per check, as in Kafka
PREFERRED: Final = 0  # Kafka's ElectionType.PREFERRED
UNCLEAN: Final = 1  # Kafka's ElectionType.UNCLEAN
Leaders = Mapping[ShardId, BrokerId]


@dataclass(frozen=True, slots=True)
class Election:
    """The outcome of an election requested for one partition."""

    topic: str
    partition: int
    problem: Problem | None = None  # ELECTION_NOT_NEEDED also counts as a problem


def preferred_leader(shard: Shard) -> BrokerId:
    return shard.replicas[0].broker_id


def imbalance(image: ClusterImage, leaders: Leaders, live: frozenset[BrokerId]) -> list[tuple[ShardId, BrokerId]]:
    """Return (shard, preferred leader) for each shard that another broker leads while its preferred leader is live.

    At most TRANSFERS_MAX pairs are returned.  Shards without a leader are left out: they elect one without the
    controller.
    """
    moves = []
    for shard_id, leader in sorted(leaders.items()):
        shard = image.shards.get(shard_id)
        if shard is not None and leader != (to := preferred_leader(shard)) and to in live:
            moves.append((shard_id, to))
    return moves[:TRANSFERS_MAX]


def rebalance_interval_s(layers: BrokerLayers) -> int | None:
    """Return the seconds between checks for `imbalance`; None if automatic balancing is disabled."""
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
    """Decide an ElectLeaders request.

    Return the leadership transfers to make, as (shard, target broker) with each shard only once, and the outcome for
    each partition, to be sent after the transfers.  `wanted` holds (topic, partitions); None requests all partitions,
    and the outcomes then omit partitions that need no election, as in Kafka.  An unclean election never transfers
    leadership: a shard with a leader needs no election, and a shard without a leader must wait for a majority of its
    replicas.
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
        f"{name} has no leader, and an unclean election would lose acknowledged records; "
        "start brokers until a majority of its replicas is up, which then elects a leader",
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
            f"{name} has no leader that could transfer leadership to broker {to}; retry when it has one",
        )
    return None

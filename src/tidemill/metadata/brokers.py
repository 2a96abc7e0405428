"""Decides the bootstrap of a cluster and the registration of brokers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemill.metadata.apply import apply
from tidemill.metadata.feature_levels import NEWEST, OLDEST, recorded_level, refusal_of_older
from tidemill.metadata.growth import plan_growth
from tidemill.metadata.metadata_records import (
    BrokerRecord,
    ClusterRecord,
    Endpoint,
    FeatureRecord,
    Record,
    ShardRecord,
    TopicRecord,
)
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.metadata.topics import INTERNAL_TOPIC_SETTINGS, setting_records
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import METADATA_SHARD
from tidemill.model.topic import METADATA_TOPIC, METADATA_TOPIC_ID
from tidemill.model.topic_kind import TopicKind


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapCluster:
    """Write the first records of an empty metadata log.  Repeating the command changes nothing."""

    cluster_id: str
    voter: ReplicaKey
    level: int = NEWEST  # the highest feature level that the broker supports


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """Register the endpoints of an admitted broker; every broker sends it at each start."""

    broker_id: BrokerId
    directory_id: DirectoryId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    level: int = OLDEST  # the highest feature level that the broker supports


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowReplicas:
    """Add replicas of internal topics for which enough brokers are now live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    problem: Problem | None = None


def bootstrap_cluster(context: DecisionContext, command: BootstrapCluster) -> Result[Registered]:
    image = context.image
    level = recorded_level(image.feature_level if image.cluster_id else command.level, command.level)
    initial_voter = BrokerRecord(command.voter.broker_id, command.voter.directory_id, (), None, level)
    if image.cluster_id == command.cluster_id:
        is_initial_voter = command.voter in image.shards[METADATA_SHARD].initial_voters
        # An older version of Tidemill could stop after writing the cluster's records and before writing the broker's.
        is_missing = is_initial_voter and command.voter.broker_id not in image.brokers
        return Result((initial_voter,) if is_missing else (), Registered())
    if image.cluster_id:
        problem = Problem(
            errors.INCONSISTENT_CLUSTER_ID,
            f"this data directory belongs to cluster {image.cluster_id}, not to {command.cluster_id}",
        )
        return Result((), Registered(problem=problem))
    records: Sequence[Record] = (
        ClusterRecord(command.cluster_id),
        FeatureRecord(command.level),
        TopicRecord(METADATA_TOPIC_ID, METADATA_TOPIC, TopicKind.LOG),
        ShardRecord(METADATA_SHARD, METADATA_TOPIC_ID, 0, 1, (command.voter,)),
        *setting_records(METADATA_TOPIC, INTERNAL_TOPIC_SETTINGS),
        initial_voter,
    )
    return Result(tuple(records), Registered())


def register_broker(context: DecisionContext, command: RegisterBroker) -> Result[Registered]:
    """
    Record a broker's endpoints, rack and newest feature level if they have changed.  Also plan the replicas of internal
    topics that can be added now that the broker is available.
    """
    known = context.image.brokers.get(command.broker_id)
    if known is None:
        problem = Problem(
            errors.BROKER_ID_NOT_REGISTERED,
            f"broker {command.broker_id} was never admitted to cluster {context.image.cluster_id}, or was removed; "
            "start it on an empty directory, with tidemill.join set to a broker of the cluster",
        )
        return Result((), Registered(problem=problem))
    if known.directory_id != command.directory_id:
        problem = Problem(
            errors.DUPLICATE_BROKER_REGISTRATION,
            f"broker.id={command.broker_id} is refused for data directory {command.directory_id.hex()}: it belongs to "
            f"data directory {known.directory_id.hex()}; set another broker.id",
        )
        return Result((), Registered(problem=problem))
    too_old = refusal_of_older(command.broker_id, command.level, context.image.feature_level)
    if too_old is not None:
        return Result((), Registered(problem=Problem(errors.UNSUPPORTED_VERSION, too_old)))
    level = recorded_level(context.image.feature_level, command.level)
    records: tuple[Record, ...] = ()
    if (known.endpoints, known.rack, known.level) != (command.endpoints, command.rack, level):
        records = (BrokerRecord(command.broker_id, command.directory_id, command.endpoints, command.rack, level),)
    live = None if context.live is None else context.live | {command.broker_id}
    after = replace(context, image=apply(context.image, records), live=live)
    return Result((*records, *plan_growth(after)), Registered())


def grow_replicas(context: DecisionContext, _: GrowReplicas) -> Result[None]:
    return Result(plan_growth(context), None)

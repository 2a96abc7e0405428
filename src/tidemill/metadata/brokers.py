"""A cluster is founded, and brokers say who and where they are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemill.metadata.apply import FEATURE_LEVEL, apply
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapCluster:
    """An empty metadata log gets its first records.  Asked again, it changes nothing."""

    cluster_id: str
    voter: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker that was admitted says where it is reached; so it does at every start."""

    broker_id: BrokerId
    directory_id: DirectoryId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowReplicas:
    """Brokers may have come back: let the cluster's own topics have the replicas that are possible now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    problem: Problem | None = None


def bootstrap_cluster(context: DecisionContext, command: BootstrapCluster) -> Result[Registered]:
    image = context.image
    initial_voter = BrokerRecord(command.voter.broker_id, command.voter.directory_id, (), None)
    if image.cluster_id == command.cluster_id:
        is_initial_voter = command.voter in image.shards[METADATA_SHARD].initial_voters
        is_missing = (
            is_initial_voter and command.voter.broker_id not in image.brokers
        )  # an earlier build stopped in between
        return Result((initial_voter,) if is_missing else (), Registered())
    if image.cluster_id:
        problem = Problem(
            errors.INCONSISTENT_CLUSTER_ID,
            f"this directory belongs to cluster {image.cluster_id}, not to {command.cluster_id}",
        )
        return Result((), Registered(problem=problem))
    records: Sequence[Record] = (
        ClusterRecord(command.cluster_id),
        FeatureRecord(FEATURE_LEVEL),
        TopicRecord(METADATA_TOPIC_ID, METADATA_TOPIC, "log"),
        ShardRecord(METADATA_SHARD, METADATA_TOPIC_ID, 0, 1, (command.voter,)),
        *setting_records(METADATA_TOPIC, INTERNAL_TOPIC_SETTINGS),
        initial_voter,
    )
    return Result(tuple(records), Registered())


def register_broker(context: DecisionContext, command: RegisterBroker) -> Result[Registered]:
    """A broker that says what is known already writes nothing, unless its coming lets internal topics grow."""
    known = context.image.brokers.get(command.broker_id)
    if known is None:
        problem = Problem(
            errors.BROKER_ID_NOT_REGISTERED,
            f"broker {command.broker_id} was never admitted to cluster {context.image.cluster_id}; "
            "start it on an empty directory, with tidemill.join naming a broker of the cluster",
        )
        return Result((), Registered(problem=problem))
    if known.directory_id != command.directory_id:
        problem = Problem(
            errors.DUPLICATE_BROKER_REGISTRATION,
            f"broker {command.broker_id} is known with data directory {known.directory_id.hex()}, "
            f"and {command.directory_id.hex()} wants its number; choose another broker.id",
        )
        return Result((), Registered(problem=problem))
    records: tuple[Record, ...] = ()
    if (known.endpoints, known.rack) != (command.endpoints, command.rack):
        records = (BrokerRecord(command.broker_id, command.directory_id, command.endpoints, command.rack),)
    live = None if context.live is None else context.live | {command.broker_id}
    after = replace(context, image=apply(context.image, records), live=live)
    return Result((*records, *plan_growth(after)), Registered())


def grow_replicas(context: DecisionContext, _: GrowReplicas) -> Result[None]:
    return Result(plan_growth(context), None)

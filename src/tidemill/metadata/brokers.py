"""A cluster is founded, and brokers say who and where they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.metadata.apply import FEATURE_LEVEL
from tidemill.metadata.metadata_records import (
    BrokerRecord,
    ClusterRecord,
    Endpoint,
    FeatureRecord,
    Record,
    ShardRecord,
    TopicRecord,
)
from tidemill.metadata.result import Grounds, Problem, Result
from tidemill.metadata.topics import INTERNAL_TOPIC_SETTINGS, setting_records
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId, Voter
from tidemill.model.shard import METADATA_SHARD
from tidemill.model.topic import METADATA_TOPIC, METADATA_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCluster:
    """An empty metadata log gets its first records.  Asked again, it changes nothing."""

    cluster_id: str
    voter: Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    broker_id: BrokerId
    directory_id: DirectoryId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    problem: Problem | None = None


def found_cluster(grounds: Grounds, command: FoundCluster) -> Result[Registered]:
    image = grounds.image
    if image.cluster_id == command.cluster_id:
        return Result((), Registered())
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
    )
    return Result(tuple(records), Registered())


def register_broker(grounds: Grounds, command: RegisterBroker) -> Result[Registered]:
    """A broker that says what is known already writes nothing."""
    known = grounds.image.brokers.get(command.broker_id)
    if known is not None and known.directory_id != command.directory_id:
        problem = Problem(
            errors.DUPLICATE_BROKER_REGISTRATION,
            f"broker {command.broker_id} is known with data directory {known.directory_id.hex()}, "
            f"and {command.directory_id.hex()} wants its number; choose another broker.id",
        )
        return Result((), Registered(problem=problem))
    record = BrokerRecord(command.broker_id, command.directory_id, command.endpoints, command.rack)
    if known is not None and (known.endpoints, known.rack) == (command.endpoints, command.rack):
        return Result((), Registered())
    return Result((record,), Registered())

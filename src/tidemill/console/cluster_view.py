"""The data about the cluster that the pages show, and the port through which they get it from the serving broker.

The data is one broker's own view, obtained without a request to another broker.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tidemill.client.connection_settings import Endpoint

OK: Final = "ok"
UNDER_REPLICATED: Final = "under-replicated"  # a planned replica is not in sync
LEADERLESS: Final = "leaderless"  # can be neither written nor read
STATES: Final = (LEADERLESS, UNDER_REPLICATED, OK)  # worst first


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    broker_id: int
    is_up: bool
    is_controller: bool
    is_self: bool  # whether this broker serves the page
    presence: str  # active, silent or gone, as the metadata has it
    drain: str  # none, leaders or all
    silent_ms: int | None  # for how long no live broker has heard it; None if one hears it
    kafka: Endpoint | None  # for clients; None until the broker has registered
    http: Endpoint | None
    rack: str | None
    heartbeat_age_ms: int | None
    led: int  # the number of shards that this broker leads
    carried: int  # the number of shards that have a replica on this broker


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReplica:
    """A partition's replica on the broker that serves the page."""

    is_leader: bool
    start_offset: int
    end_offset: int  # the high watermark: exclusive; on a follower it may be behind the leader's
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    number: int
    shard_id: int
    state: str
    leader: int | None
    leader_epoch: int | None
    replicas: Sequence[int]
    in_sync: Sequence[int]
    local: LocalReplica | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    name: str
    is_internal: bool
    partition_count: int
    replication_factor: int
    state: str  # the worst state of the topic's partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    key: str
    value: str | None  # None if it is secret
    source: str
    documentation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRow:
    shard_id: int
    topic: str
    first_partition: int
    partition_count: int
    state: str
    leader: int | None
    term: int | None
    replicas: Sequence[int]
    in_sync: Sequence[int]
    damage: str | None  # what is damaged in the replica on this broker, if anything

    @property
    def last_partition(self) -> int:
        return self.first_partition + self.partition_count - 1


class Span(NamedTuple):
    """Consecutive partitions of a topic."""

    topic: str
    first_partition: int
    partition_count: int

    @property
    def last_partition(self) -> int:
        return self.first_partition + self.partition_count - 1


def spans(shards: Iterable[ShardRow]) -> list[Span]:
    """Return the partitions of `shards`, with consecutive ones joined into one span."""
    found: list[Span] = []
    for shard in shards:
        last = found[-1] if found else None
        if last is not None and (last.topic, last.last_partition + 1) == (shard.topic, shard.first_partition):
            found[-1] = last._replace(partition_count=last.partition_count + shard.partition_count)
        else:
            found.append(Span(shard.topic, shard.first_partition, shard.partition_count))
    return found


@dataclass(frozen=True, slots=True)
class BrokerProblem:
    """What is degraded on the broker that serves the page, as in `/health/ready`."""

    name: str
    count: int  # the number of affected partitions; 1 if the problem concerns the broker as a whole
    detail: str  # a sentence that describes the problem and the fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    cluster_id: str
    seen_by: int
    controller: int | None
    brokers: int
    brokers_down: Sequence[int]
    topics: int  # excluding internal ones
    internal_topics: int
    partitions: int
    shards: int
    has_quorum_contact: bool
    leaderless: Sequence[ShardRow]
    under_replicated: Sequence[ShardRow]
    problems: Sequence[BrokerProblem]  # except those that other fields show

    @property
    def is_whole(self) -> bool:
        has_problem = self.brokers_down or self.leaderless or self.under_replicated or self.problems
        return self.has_quorum_contact and not has_problem


class ClusterView(Protocol):
    """
    The port through which pages read the data of the serving broker.

    Its methods are called in worker threads, and return values that no other thread changes.
    """

    def overview(self) -> Overview: ...

    def brokers(self) -> Sequence[BrokerRow]: ...

    def topics(self) -> Sequence[TopicRow]:
        """Return all topics in alphabetical order, internal ones last."""
        ...

    def partitions(self, topic: str) -> Sequence[PartitionRow] | None:
        """Return the partitions of a topic; None if it does not exist."""
        ...

    def settings(self, topic: str) -> Sequence[Setting]:
        """Return the settings of a topic that differ from their defaults."""
        ...

    def shards(self) -> Sequence[ShardRow]:
        """Return all shards, ordered by id."""
        ...

    def history(self) -> dict[str, list[float]]:
        """Return this broker's traffic in the last hour; see `telemetry.history`."""
        ...

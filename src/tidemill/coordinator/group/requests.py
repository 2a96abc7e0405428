"""What a group can be asked: small values that handlers make of wire requests, so that groups know no wire version.

`waiter` is the host's own handle of the request; it comes back with the reply.  What depends on a request's version is
a flag here, and its comment names the version.
"""

from dataclasses import dataclass, field

from tidemill.coordinator.result import Waiter
from tidemill.model.topic import NO_TOPIC_ID, TopicId


@dataclass(slots=True, kw_only=True)
class Join:
    waiter: Waiter
    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""  # as Kafka shows it: "/127.0.0.1"
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1  # v0 has none: the session timeout serves
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata), the most wanted first
    must_know_member_id: bool = True  # v4+: a new dynamic member is told its id and asked to come again (KIP-394)
    can_skip_assignment: bool = True  # v9+: a returning static leader is told not to assign (KIP-814)


@dataclass(slots=True, kw_only=True)
class Sync:
    waiter: Waiter
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None  # v5+
    protocol_name: str | None = None  # v5+
    assignments: tuple[tuple[str, bytes], ...] = ()  # (member id, assignment): from the leader


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    waiter: Waiter
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(slots=True, kw_only=True)
class LeavingMember:
    member_id: str = ""  # empty: an administrator removes a static member by its instance id
    instance_id: str | None = None


@dataclass(slots=True, kw_only=True)
class Leave:
    waiter: Waiter
    group_id: str
    members: tuple[LeavingMember, ...]  # v0-2 name one


@dataclass(slots=True, kw_only=True)
class TopicPartitionId:
    """A partition by both names of its topic; the handler has resolved the one the client did not give."""

    topic: str
    topic_id: TopicId = NO_TOPIC_ID  # NO_TOPIC_ID where no such topic exists
    partition: int


@dataclass(slots=True, kw_only=True)
class OffsetToCommit(TopicPartitionId):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(slots=True, kw_only=True)
class CommitOffsets:
    waiter: Waiter
    group_id: str
    generation: int = -1  # -1 with an empty member id: a consumer that assigns partitions by itself
    member_id: str = ""
    instance_id: str | None = None
    retention_ms: int = -1  # v2-4: asked for by the client; -1 leaves it to the broker
    knows_group_id_not_found: bool = True  # v9+: an unknown group is GROUP_ID_NOT_FOUND, before that ILLEGAL_GENERATION
    offsets: tuple[OffsetToCommit, ...]


@dataclass(slots=True, kw_only=True)
class FetchOffsets:
    """Member id and epoch (v9+) are not here: for classic groups Kafka does not look at them."""

    waiter: Waiter
    group_id: str
    partitions: tuple[TopicPartitionId, ...] | None  # None: all that the group has


@dataclass(slots=True, kw_only=True)
class DeleteOffsets:
    waiter: Waiter
    group_id: str
    partitions: tuple[TopicPartitionId, ...]


@dataclass(slots=True, kw_only=True)
class DescribeGroups:
    waiter: Waiter
    group_ids: tuple[str, ...]  # those that belong to this partition


@dataclass(slots=True, kw_only=True)
class ListGroups:
    waiter: Waiter
    states: tuple[str, ...] = ()  # v4+: any of these, in any case; empty: all
    types: tuple[str, ...] = ()  # v5+: likewise


@dataclass(slots=True, kw_only=True)
class DeleteGroups:
    waiter: Waiter
    group_ids: tuple[str, ...]  # those that belong to this partition


@dataclass(slots=True, kw_only=True)
class ForgetTopics:
    """From the host, when topics were deleted: their committed offsets go.  Nobody waits for it."""

    topic_ids: frozenset[TopicId] = field(default_factory=frozenset)


GroupRequest = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | DescribeGroups
    | ListGroups
    | DeleteGroups
    | ForgetTopics
)

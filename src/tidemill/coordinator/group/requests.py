"""Requests to the group coordinator: values that handlers build from wire requests of any version.

`waiter` is the host's handle for the request, and is returned with the reply.  Where behaviour depends on the version
of the wire request, the request has a flag, and the comment next to it names the version.
"""

from dataclasses import dataclass, field

from tidemill.coordinator.result import Waiter
from tidemill.coordinator.share_group.requests import ShareGroupRequest
from tidemill.model.topic import NO_TOPIC_ID, TopicId


@dataclass(slots=True, kw_only=True)
class Join:
    waiter: Waiter
    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""  # in Kafka's format: "/127.0.0.1"
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1  # absent in v0: the session timeout applies
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata), in order of preference
    must_know_member_id: bool = True  # v4+: a new dynamic member gets MEMBER_ID_REQUIRED and its id (KIP-394)
    can_skip_assignment: bool = True  # v9+: the response can tell a returning static leader not to assign (KIP-814)


@dataclass(slots=True, kw_only=True)
class Sync:
    waiter: Waiter
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None  # None before v5: the request does not have this field
    protocol_name: str | None = None  # None before v5: the request does not have this field
    assignments: tuple[tuple[str, bytes], ...] = ()  # (member id, assignment); only the group leader sends them


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    waiter: Waiter
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(slots=True, kw_only=True)
class LeavingMember:
    member_id: str = ""  # empty when an administrator removes a static member by its instance id
    instance_id: str | None = None


@dataclass(slots=True, kw_only=True)
class Leave:
    waiter: Waiter
    group_id: str
    members: tuple[LeavingMember, ...]  # exactly one in v0-2


@dataclass(slots=True, kw_only=True)
class TopicPartitionId:
    """A partition with both the name and the id of its topic.

    Clients send only one of the two; the handler looks up the other.
    """

    topic: str
    topic_id: TopicId = NO_TOPIC_ID  # NO_TOPIC_ID if no such topic exists
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
    generation: int = -1  # -1 with an empty member id: a simple consumer, which assigns its partitions itself
    member_id: str = ""
    instance_id: str | None = None
    retention_ms: int = -1  # v2-4: requested by the client; -1 selects the broker's retention
    knows_group_id_not_found: bool = True  # v9+: unknown groups get GROUP_ID_NOT_FOUND; before v9 ILLEGAL_GENERATION
    offsets: tuple[OffsetToCommit, ...]


@dataclass(slots=True, kw_only=True)
class FetchOffsets:
    """Fetch committed offsets.  Member id and epoch (v9+) are left out: Kafka ignores them for classic groups."""

    waiter: Waiter
    group_id: str
    partitions: tuple[TopicPartitionId, ...] | None  # None: every partition with a committed offset


@dataclass(slots=True, kw_only=True)
class DeleteOffsets:
    waiter: Waiter
    group_id: str
    partitions: tuple[TopicPartitionId, ...]


@dataclass(slots=True, kw_only=True)
class DescribeGroups:
    waiter: Waiter
    group_ids: tuple[str, ...]  # only groups that hash to this partition of the internal topic


@dataclass(slots=True, kw_only=True)
class ListGroups:
    waiter: Waiter
    states: tuple[str, ...] = ()  # v4+: list groups in any of these states, case-insensitive; empty: all
    types: tuple[str, ...] = ()  # v5+: list groups of any of these types, case-insensitive; empty: all


@dataclass(slots=True, kw_only=True)
class DeleteGroups:
    waiter: Waiter
    group_ids: tuple[str, ...]  # only groups that hash to this partition of the internal topic


@dataclass(slots=True, kw_only=True)
class ForgetTopics:
    """
    Delete the committed offsets of deleted topics, and forget the topics in share groups.  The host sends it and
    expects no reply.
    """

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
    | ShareGroupRequest
)

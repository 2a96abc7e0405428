"""Responses about share groups: values that handlers turn into wire responses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidemill.coordinator.share_group.simple_assignor import Assignment
from tidemill.model import errors
from tidemill.model.offset_reset import EARLIEST, OffsetReset
from tidemill.model.topic import TopicId


@dataclass(slots=True, kw_only=True)
class ShareHeartbeatTaken:
    error_code: int = errors.NONE
    error_message: str | None = None
    member_id: str = ""
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None  # None: unchanged


class DescribedTopic(NamedTuple):
    topic_id: TopicId
    name: str
    partitions: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class DescribedShareMember:
    member_id: str
    rack: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[DescribedTopic, ...]


@dataclass(slots=True, kw_only=True)
class DescribedShareGroup:
    group_id: str
    error_code: int = errors.NONE
    error_message: str | None = None
    state: str = "Dead"
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedShareMember, ...] = ()


@dataclass(slots=True, kw_only=True)
class ShareGroupsDescribed:
    groups: tuple[DescribedShareGroup, ...]


@dataclass(slots=True, kw_only=True)
class ShareTopicsRead:
    error_code: int = errors.NONE
    error_message: str | None = None
    incarnations: Mapping[TopicId, int] = field(default_factory=dict)  # of the topics that the group knows


@dataclass(slots=True, kw_only=True)
class ShareOpened:
    error_code: int = errors.NONE
    incarnation: int = 0
    start: OffsetReset = field(default=EARLIEST)  # where the share begins if it has no state of this incarnation


class AlteredTopic(NamedTuple):
    topic_id: TopicId
    partition_count: int
    incarnation: int


@dataclass(slots=True, kw_only=True)
class ShareOffsetsAltered:
    """The offsets may be set: the group exists and is empty, and knows the topics."""

    error_code: int = errors.NONE
    error_message: str | None = None
    topics: tuple[AlteredTopic | None, ...] = ()  # in the order of the request; None: there is no such topic


class DeletedTopic(NamedTuple):
    topic_id: TopicId
    error_code: int = errors.NONE
    error_message: str | None = None


@dataclass(slots=True, kw_only=True)
class ShareOffsetsDeleted:
    error_code: int = errors.NONE
    error_message: str | None = None
    topics: tuple[DeletedTopic, ...] = ()  # in the order of the request

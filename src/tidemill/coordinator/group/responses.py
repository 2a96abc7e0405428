"""Responses of the group coordinator: values that handlers turn into wire responses."""

from dataclasses import dataclass

from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID, TopicId


@dataclass(slots=True, kw_only=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class Joined:
    error_code: int = errors.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None  # before v7 the field is not nullable, and the handler writes ""
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()  # only in the leader's response


@dataclass(slots=True, kw_only=True)
class Synced:
    error_code: int = errors.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class HeartbeatTaken:
    error_code: int = errors.NONE


@dataclass(slots=True, kw_only=True)
class LeftMember:
    member_id: str
    instance_id: str | None
    error_code: int = errors.NONE


@dataclass(slots=True, kw_only=True)
class Left:
    error_code: int = errors.NONE  # before v3, the handler fills it with the error of the single member
    members: tuple[LeftMember, ...] = ()


@dataclass(slots=True, kw_only=True)
class OffsetsCommitted:
    """One error code per offset of the request, in the same order.

    If the entire request is rejected, all codes are equal.
    """

    error_codes: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class FetchedOffset:
    topic: str
    topic_id: TopicId = NO_TOPIC_ID
    partition: int
    offset: int = -1  # -1: no offset is committed, which is not an error
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(slots=True, kw_only=True)
class OffsetsFetched:
    error_code: int = errors.NONE
    offsets: tuple[FetchedOffset, ...] = ()


@dataclass(slots=True, kw_only=True)
class OffsetsDeleted:
    """One error code per partition of the request, in the same order; none if the entire request was rejected."""

    error_code: int = errors.NONE
    error_codes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes  # empty unless the group is stable
    assignment: bytes


@dataclass(slots=True, kw_only=True)
class DescribedGroup:
    group_id: str
    error_code: int = errors.NONE  # before v6, the handler writes NONE instead of GROUP_ID_NOT_FOUND
    error_message: str | None = None
    state: str = "Dead"
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(slots=True, kw_only=True)
class GroupsDescribed:
    groups: tuple[DescribedGroup, ...]


@dataclass(slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    type: str = "Classic"


@dataclass(slots=True, kw_only=True)
class GroupsListed:
    error_code: int = errors.NONE
    groups: tuple[ListedGroup, ...] = ()


@dataclass(slots=True, kw_only=True)
class GroupsDeleted:
    """One error code per group of the request, in the same order."""

    error_codes: tuple[int, ...]

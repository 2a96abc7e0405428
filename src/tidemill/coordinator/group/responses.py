"""What a group answers: small values that handlers turn into wire responses."""

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
    protocol_name: str | None = None  # before v7 the wire has no null here: write ""
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()  # for the leader only


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
    error_code: int = errors.NONE  # before v3 the single member's error stands here: the handler moves it up
    members: tuple[LeftMember, ...] = ()


@dataclass(slots=True, kw_only=True)
class OffsetsCommitted:
    """One code for each offset of the request, in its order.  A refusal of the whole is in all of them."""

    error_codes: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class FetchedOffset:
    topic: str
    topic_id: TopicId = NO_TOPIC_ID
    partition: int
    offset: int = -1  # -1, and no error: nothing is committed
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(slots=True, kw_only=True)
class OffsetsFetched:
    error_code: int = errors.NONE
    offsets: tuple[FetchedOffset, ...] = ()


@dataclass(slots=True, kw_only=True)
class OffsetsDeleted:
    """One code for each partition of the request, in its order, unless the whole was refused."""

    error_code: int = errors.NONE
    error_codes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes  # only while the group is stable
    assignment: bytes


@dataclass(slots=True, kw_only=True)
class DescribedGroup:
    group_id: str
    error_code: int = errors.NONE  # GROUP_ID_NOT_FOUND is for v6+; earlier versions say NONE and state Dead
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
    """One code for each group of the request, in its order."""

    error_codes: tuple[int, ...]

"""Error responses for requests that reach no group: the coordinator is another broker, is loading, or cannot write."""

from typing import assert_never

from tidemill.coordinator.group.requests import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    ForgetTopics,
    GroupRequest,
    Heartbeat,
    Join,
    Leave,
    ListGroups,
    Sync,
)
from tidemill.coordinator.group.responses import (
    DescribedGroup,
    GroupsDeleted,
    GroupsDescribed,
    GroupsListed,
    HeartbeatTaken,
    Joined,
    Left,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
    Synced,
)
from tidemill.coordinator.share_group.requests import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribeShareGroups,
    ReadShareTopics,
    ShareHeartbeat,
    ShareOpen,
    SharesClosed,
)
from tidemill.coordinator.share_group.responses import (
    DescribedShareGroup,
    ShareGroupsDescribed,
    ShareHeartbeatTaken,
    ShareOffsetsAltered,
    ShareOffsetsDeleted,
    ShareOpened,
    ShareTopicsRead,
)


def refused(request: GroupRequest, error_code: int) -> object:
    """Return the response to `request` that carries `error_code`; None for a request that gets no reply."""
    match request:
        case Heartbeat():
            return HeartbeatTaken(error_code=error_code)
        case CommitOffsets():
            return OffsetsCommitted(error_codes=(error_code,) * len(request.offsets))
        case FetchOffsets():
            return OffsetsFetched(error_code=error_code)
        case Join():
            return Joined(error_code=error_code, member_id=request.member_id)
        case Sync():
            return Synced(error_code=error_code)
        case Leave():
            return Left(error_code=error_code)
        case DeleteOffsets():
            return OffsetsDeleted(error_code=error_code)
        case DescribeGroups():
            groups = tuple(DescribedGroup(group_id=it, error_code=error_code, state="") for it in request.group_ids)
            return GroupsDescribed(groups=groups)
        case ListGroups():
            return GroupsListed(error_code=error_code)
        case DeleteGroups():
            return GroupsDeleted(error_codes=(error_code,) * len(request.group_ids))
        case ShareHeartbeat():
            return ShareHeartbeatTaken(error_code=error_code)
        case DescribeShareGroups():
            described = (DescribedShareGroup(group_id=it, error_code=error_code, state="") for it in request.group_ids)
            return ShareGroupsDescribed(groups=tuple(described))
        case ReadShareTopics():
            return ShareTopicsRead(error_code=error_code)
        case ShareOpen():
            return ShareOpened(error_code=error_code)
        case AlterShareOffsets():
            return ShareOffsetsAltered(error_code=error_code)
        case DeleteShareOffsets():
            return ShareOffsetsDeleted(error_code=error_code)
        case ForgetTopics() | SharesClosed():
            return None
        case _:
            assert_never(request)

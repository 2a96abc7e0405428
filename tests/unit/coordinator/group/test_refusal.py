"""The error response for each type of request."""

import pytest

from tidemill.coordinator.group.refusal import refused
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
    OffsetToCommit,
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
)
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID

CODE = errors.COORDINATOR_LOAD_IN_PROGRESS
OFFSETS = tuple(OffsetToCommit(topic="flights", partition=number, offset=1) for number in range(2))


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (Heartbeat(waiter=1, group_id="g", generation=1, member_id="m"), HeartbeatTaken(error_code=CODE)),
        (CommitOffsets(waiter=1, group_id="g", offsets=OFFSETS), OffsetsCommitted(error_codes=(CODE, CODE))),
        (FetchOffsets(waiter=1, group_id="g", partitions=None), OffsetsFetched(error_code=CODE)),
        (
            Join(waiter=1, group_id="g", member_id="m", session_timeout_ms=1, protocol_type="consumer", protocols=()),
            Joined(error_code=CODE, member_id="m"),
        ),
        (Sync(waiter=1, group_id="g", generation=1, member_id="m"), Synced(error_code=CODE)),
        (Leave(waiter=1, group_id="g", members=()), Left(error_code=CODE)),
        (DeleteOffsets(waiter=1, group_id="g", partitions=()), OffsetsDeleted(error_code=CODE)),
        (
            DescribeGroups(waiter=1, group_ids=("g",)),
            GroupsDescribed(groups=(DescribedGroup(group_id="g", error_code=CODE, state=""),)),
        ),
        (ListGroups(waiter=1), GroupsListed(error_code=CODE)),
        (DeleteGroups(waiter=1, group_ids=("a", "b")), GroupsDeleted(error_codes=(CODE, CODE))),
        (ForgetTopics(), None),
        (ShareHeartbeat(waiter=1, group_id="g", member_id="m", epoch=1), ShareHeartbeatTaken(error_code=CODE)),
        (
            DescribeShareGroups(waiter=1, group_ids=("g",)),
            ShareGroupsDescribed(groups=(DescribedShareGroup(group_id="g", error_code=CODE, state=""),)),
        ),
        (ShareOpen(waiter=1, group_id="g", topic_id=NO_TOPIC_ID, partition=0), ShareOpened(error_code=CODE)),
        (AlterShareOffsets(waiter=1, group_id="g", topics=("t",)), ShareOffsetsAltered(error_code=CODE)),
        (DeleteShareOffsets(waiter=1, group_id="g", topics=("t",)), ShareOffsetsDeleted(error_code=CODE)),
        (SharesClosed(group_id="g", topic_id=NO_TOPIC_ID, incarnation=1), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_refusal_has_the_type_of_the_response(request_: GroupRequest, reply: object) -> None:
    """A handler encodes a refusal in the same way as any other response."""
    assert reply == refused(request_, CODE)

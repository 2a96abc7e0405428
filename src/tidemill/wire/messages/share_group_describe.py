"""ShareGroupDescribe: key 77, v1, flexible from v1.

Describes share groups and their members (KIP-932).
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import BOOL, INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    group_ids: Sequence[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL)


class Response(Message):
    class Group(Message):
        class Member(Message):
            class Assignment(Message):
                class TopicPartitions(Message):
                    topic_id: TopicId = field(UUID)
                    topic_name: str = field(STRING)
                    partitions: Sequence[int] = field(array(INT32))

                topic_partitions: Sequence[TopicPartitions] = field(array(TopicPartitions))

            member_id: str = field(STRING)
            rack_id: str | None = field(STRING, default=None)
            member_epoch: int = field(INT32)
            client_id: str = field(STRING)
            client_host: str = field(STRING)
            subscribed_topic_names: Sequence[str] = field(array(STRING))
            assignment: Assignment = field(Assignment)

        error_code: int = field(INT16)
        error_message: str | None = field(STRING, default=None)
        group_id: str = field(STRING)
        group_state: str = field(STRING)
        group_epoch: int = field(INT32)
        assignment_epoch: int = field(INT32)
        assignor_name: str = field(STRING)
        members: Sequence[Member] = field(array(Member))
        authorized_operations: int = field(INT32, default=-0x80000000)

    throttle_time_ms: int = field(INT32, default=0)
    groups: Sequence[Group] = field(array(Group))


API = Api(key=77, versions=range(1, 2), flexible_from=1, request=Request, response=Response)

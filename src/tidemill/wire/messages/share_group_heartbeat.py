"""ShareGroupHeartbeat: key 76, v1, flexible from v1.

Joins or leaves a share group, maintains the membership, and receives the assignment (KIP-932).
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    rack_id: str | None = field(STRING, default=None)
    subscribed_topic_names: Sequence[str] | None = field(array(STRING), default=None)


class Response(Message):
    class Assignment(Message):
        class TopicPartitions(Message):
            topic_id: TopicId = field(UUID)
            partitions: Sequence[int] = field(array(INT32))

        topic_partitions: Sequence[TopicPartitions] = field(array(TopicPartitions))

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)
    member_id: str | None = field(STRING, default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: Assignment | None = field(Assignment, default=None)


API = Api(key=76, versions=range(1, 2), flexible_from=1, request=Request, response=Response)

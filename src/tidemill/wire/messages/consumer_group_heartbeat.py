"""ConsumerGroupHeartbeat: key 68, v0-1, flexible from v0.

Joins or leaves a consumer group of KIP-848, keeps the membership, and receives the assignment.

v1  a regular expression for topic names; the client chooses the member id (KIP-1082)
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class TopicPartitions(Message):
        topic_id: TopicId = field(UUID)
        partitions: Sequence[int] = field(array(INT32))

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, default=None)
    rack_id: str | None = field(STRING, default=None)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    subscribed_topic_names: Sequence[str] | None = field(array(STRING), default=None)
    subscribed_topic_regex: str | None = field(STRING, since=1, default=None)
    server_assignor: str | None = field(STRING, default=None)
    topic_partitions: Sequence[TopicPartitions] | None = field(array(TopicPartitions), default=None)


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


API = Api(key=68, versions=range(2), flexible_from=0, request=Request, response=Response)

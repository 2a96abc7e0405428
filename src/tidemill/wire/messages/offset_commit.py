"""OffsetCommit: key 8, v2-10, flexible from v8.

Commits the offsets of a group.

v2   request: without commit_timestamp
v3   response: throttle_time_ms
v5   request: without retention_time_ms
v6   request: committed_leader_epoch
v7   request: group_instance_id; static members (KIP-345)
v8   flexible
v9   the consumer group protocol; may return STALE_MEMBER_EPOCH (KIP-848)
v10  request and response: topic_id in place of name; topics by id (KIP-848)
"""

from collections.abc import Sequence

from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.primitives import INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            committed_offset: int = field(INT64)
            committed_leader_epoch: int = field(INT32, since=6, default=-1)
            committed_metadata: str | None = field(STRING)

        name: str = field(STRING, until=10, default="")
        topic_id: TopicId = field(UUID, since=10, default=NO_TOPIC_ID)
        partitions: Sequence[Partition] = field(array(Partition))

    group_id: str = field(STRING)
    generation_id_or_member_epoch: int = field(INT32, default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=7, default=None)
    retention_time_ms: int = field(INT64, until=5, default=-1)
    topics: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            error_code: int = field(INT16)

        name: str = field(STRING, until=10, default="")
        topic_id: TopicId = field(UUID, since=10, default=NO_TOPIC_ID)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, since=3, default=0)
    topics: Sequence[Topic] = field(array(Topic))


API = Api(key=8, versions=range(2, 11), flexible_from=8, request=Request, response=Response)

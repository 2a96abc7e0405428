"""OffsetFetch: key 9, v1-10, flexible from v6.

Returns the committed offsets of groups.  Null topics means every topic with a committed offset.

v2   response: error_code
v3   response: throttle_time_ms
v5   response: committed_leader_epoch
v6   flexible
v7   request: require_stable; may return UNSTABLE_OFFSET_COMMIT (KIP-447)
v8   request: groups in place of group_id, topics; response: groups in place of topics, error_code; many groups at
     once (KIP-709)
v9   request: member_id, member_epoch; the consumer group protocol (KIP-848)
v10  request and response: topic_id in place of name; topics by id (KIP-848)
"""

from collections.abc import Sequence

from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.primitives import BOOL, INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        name: str = field(STRING)
        partition_indexes: Sequence[int] = field(array(INT32))

    class Group(Message):
        class Topic(Message):
            name: str = field(STRING, until=10, default="")
            topic_id: TopicId = field(UUID, since=10, default=NO_TOPIC_ID)
            partition_indexes: Sequence[int] = field(array(INT32))

        group_id: str = field(STRING)
        member_id: str | None = field(STRING, since=9, default=None)
        member_epoch: int = field(INT32, since=9, default=-1)
        topics: Sequence[Topic] | None = field(array(Topic))

    group_id: str = field(STRING, until=8, default="")
    topics: Sequence[Topic] | None = field(array(Topic), until=8, nullable_since=2, default=None)
    groups: Sequence[Group] = field(array(Group), since=8, default=())
    require_stable: bool = field(BOOL, since=7, default=False)


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            committed_offset: int = field(INT64)
            committed_leader_epoch: int = field(INT32, since=5, default=-1)
            metadata: str | None = field(STRING, default=None)
            error_code: int = field(INT16)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    class Group(Message):
        class Topic(Message):
            class Partition(Message):
                partition_index: int = field(INT32)
                committed_offset: int = field(INT64)
                committed_leader_epoch: int = field(INT32, default=-1)
                metadata: str | None = field(STRING, default=None)
                error_code: int = field(INT16)

            name: str = field(STRING, until=10, default="")
            topic_id: TopicId = field(UUID, since=10, default=NO_TOPIC_ID)
            partitions: Sequence[Partition] = field(array(Partition))

        group_id: str = field(STRING)
        topics: Sequence[Topic] = field(array(Topic))
        error_code: int = field(INT16, default=0)

    throttle_time_ms: int = field(INT32, since=3, default=0)
    topics: Sequence[Topic] = field(array(Topic), until=8, default=())
    error_code: int = field(INT16, since=2, until=8, default=0)
    groups: Sequence[Group] = field(array(Group), since=8, default=())


API = Api(key=9, versions=range(1, 11), flexible_from=6, request=Request, response=Response)

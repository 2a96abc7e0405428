"""DescribeShareGroupOffsets: key 90, v0-1, flexible from v0.

Returns the start offsets of share groups in their partitions (KIP-932).

v1   response: lag; the number of records that are not finished (KIP-1226)
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Group(Message):
        class Topic(Message):
            topic_name: str = field(STRING)
            partitions: Sequence[int] = field(array(INT32))

        group_id: str = field(STRING)
        topics: Sequence[Topic] | None = field(array(Topic))

    groups: Sequence[Group] = field(array(Group))


class Response(Message):
    class Group(Message):
        class Topic(Message):
            class Partition(Message):
                partition_index: int = field(INT32)
                start_offset: int = field(INT64)
                leader_epoch: int = field(INT32)
                lag: int = field(INT64, since=1, default=-1)
                error_code: int = field(INT16)
                error_message: str | None = field(STRING, default=None)

            topic_name: str = field(STRING)
            topic_id: TopicId = field(UUID)
            partitions: Sequence[Partition] = field(array(Partition))

        group_id: str = field(STRING)
        topics: Sequence[Topic] = field(array(Topic))
        error_code: int = field(INT16)
        error_message: str | None = field(STRING, default=None)

    throttle_time_ms: int = field(INT32, default=0)
    groups: Sequence[Group] = field(array(Group))


API = Api(key=90, versions=range(2), flexible_from=0, request=Request, response=Response)

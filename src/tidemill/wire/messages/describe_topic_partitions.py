"""DescribeTopicPartitions: key 75, v0, flexible from v0.

Returns the partitions of topics in pages, with eligible leader replicas (KIP-966).
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import BOOL, INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        name: str = field(STRING)

    class Cursor(Message):
        topic_name: str = field(STRING)
        partition_index: int = field(INT32)

    topics: Sequence[Topic] = field(array(Topic))
    response_partition_limit: int = field(INT32, default=2000)
    cursor: Cursor | None = field(Cursor, default=None)


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            error_code: int = field(INT16)
            partition_index: int = field(INT32)
            leader_id: int = field(INT32)
            leader_epoch: int = field(INT32, default=-1)
            replica_nodes: Sequence[int] = field(array(INT32))
            isr_nodes: Sequence[int] = field(array(INT32))
            eligible_leader_replicas: Sequence[int] | None = field(array(INT32), default=None)
            last_known_elr: Sequence[int] | None = field(array(INT32), default=None)
            offline_replicas: Sequence[int] = field(array(INT32))

        error_code: int = field(INT16)
        name: str | None = field(STRING, default=None)
        topic_id: TopicId = field(UUID)
        is_internal: bool = field(BOOL, default=False)
        partitions: Sequence[Partition] = field(array(Partition))
        topic_authorized_operations: int = field(INT32, default=-2147483648)

    class Cursor(Message):
        topic_name: str = field(STRING)
        partition_index: int = field(INT32)

    throttle_time_ms: int = field(INT32, default=0)
    topics: Sequence[Topic] = field(array(Topic))
    next_cursor: Cursor | None = field(Cursor, default=None)


API = Api(key=75, versions=range(1), flexible_from=0, request=Request, response=Response)

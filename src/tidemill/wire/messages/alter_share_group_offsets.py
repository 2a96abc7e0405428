"""AlterShareGroupOffsets: key 91, v0, flexible from v0.

Sets the start offsets of a share group without members (KIP-932).
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            start_offset: int = field(INT64)

        topic_name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    group_id: str = field(STRING)
    topics: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            error_code: int = field(INT16)
            error_message: str | None = field(STRING, default=None)

        topic_name: str = field(STRING)
        topic_id: TopicId = field(UUID)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)
    responses: Sequence[Topic] = field(array(Topic))


API = Api(key=91, versions=range(1), flexible_from=0, request=Request, response=Response)

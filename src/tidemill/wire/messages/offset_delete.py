"""OffsetDelete: key 47, v0, never flexible.

Deletes committed offsets (KIP-496).
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    group_id: str = field(STRING)
    topics: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            error_code: int = field(INT16)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32, default=0)
    topics: Sequence[Topic] = field(array(Topic))


API = Api(key=47, versions=range(1), flexible_from=None, request=Request, response=Response)

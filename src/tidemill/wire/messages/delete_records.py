"""DeleteRecords: key 21, v0-2, flexible from v2.

Advances the log start offset of partitions; offset -1 means the high watermark.

v2  flexible
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            offset: int = field(INT64)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    topics: Sequence[Topic] = field(array(Topic))
    timeout_ms: int = field(INT32)


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            low_watermark: int = field(INT64)
            error_code: int = field(INT16)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, default=0)
    topics: Sequence[Topic] = field(array(Topic))


API = Api(key=21, versions=range(3), flexible_from=2, request=Request, response=Response)

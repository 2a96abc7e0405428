"""ListPartitionReassignments: key 46, v0, flexible from v0.

Returns the partitions whose replicas are on their way to other brokers (KIP-455).  Null topics means all.
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        name: str = field(STRING)
        partition_indexes: Sequence[int] = field(array(INT32))

    timeout_ms: int = field(INT32, default=60000)
    topics: Sequence[Topic] | None = field(array(Topic), default=None)


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            replicas: Sequence[int] = field(array(INT32))
            adding_replicas: Sequence[int] = field(array(INT32))
            removing_replicas: Sequence[int] = field(array(INT32))

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)
    topics: Sequence[Topic] = field(array(Topic))


API = Api(key=46, versions=range(1), flexible_from=0, request=Request, response=Response)

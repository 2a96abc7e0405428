"""OffsetForLeaderEpoch: key 23, v2-4, flexible from v4.

Returns the end offset of a leader epoch, by which a consumer detects that the log was truncated (KIP-320).

v3  request: replica_id
v4  flexible
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            partition: int = field(INT32)
            current_leader_epoch: int = field(INT32, default=-1)
            leader_epoch: int = field(INT32)

        topic: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    replica_id: int = field(INT32, since=3, default=-2)
    topics: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            error_code: int = field(INT16)
            partition: int = field(INT32)
            leader_epoch: int = field(INT32, default=-1)
            end_offset: int = field(INT64, default=-1)

        topic: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, default=0)
    topics: Sequence[Topic] = field(array(Topic))


API = Api(key=23, versions=range(2, 5), flexible_from=4, request=Request, response=Response)

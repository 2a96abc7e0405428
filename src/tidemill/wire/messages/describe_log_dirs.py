"""DescribeLogDirs: key 35, v1-5, flexible from v2.

Returns the log directories of this broker: their disks, and the size of each partition.  Null topics means
every partition.

v2  flexible
v3  response: error_code; a top-level error
v4  response: total_bytes, usable_bytes; the size of the disk (KIP-827)
v5  response: is_cordoned; cordoned directories (KIP-1066)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        topic: str = field(STRING)
        partitions: Sequence[int] = field(array(INT32))

    topics: Sequence[Topic] | None = field(array(Topic))


class Response(Message):
    class Result(Message):
        class Topic(Message):
            class Partition(Message):
                partition_index: int = field(INT32)
                partition_size: int = field(INT64)
                offset_lag: int = field(INT64)
                is_future_key: bool = field(BOOL)

            name: str = field(STRING)
            partitions: Sequence[Partition] = field(array(Partition))

        error_code: int = field(INT16)
        log_dir: str = field(STRING)
        topics: Sequence[Topic] = field(array(Topic))
        total_bytes: int = field(INT64, since=4, default=-1)
        usable_bytes: int = field(INT64, since=4, default=-1)
        is_cordoned: bool = field(BOOL, since=5, default=False)

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16, since=3, default=0)
    results: Sequence[Result] = field(array(Result))


API = Api(key=35, versions=range(1, 6), flexible_from=2, request=Request, response=Response)

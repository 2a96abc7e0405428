"""AlterReplicaLogDirs: key 34, v1-2, flexible from v2.

Moves replicas of this broker to other log directories of it (KIP-113).

v2  flexible
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Directory(Message):
        class Topic(Message):
            name: str = field(STRING)
            partitions: Sequence[int] = field(array(INT32))

        path: str = field(STRING)
        topics: Sequence[Topic] = field(array(Topic))

    dirs: Sequence[Directory] = field(array(Directory))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            error_code: int = field(INT16)

        topic_name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, default=0)
    results: Sequence[Topic] = field(array(Topic))


API = Api(key=34, versions=range(1, 3), flexible_from=2, request=Request, response=Response)

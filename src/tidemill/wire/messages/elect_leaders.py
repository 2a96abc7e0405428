"""ElectLeaders: key 43, v0-2, flexible from v2.

Requests leader elections: type 0 is preferred, 1 is unclean.  Null topic_partitions means all partitions.

v1  request: election_type; response: error_code; unclean elections (KIP-460)
v2  flexible
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT8, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        topic: str = field(STRING)
        partitions: Sequence[int] = field(array(INT32))

    election_type: int = field(INT8, since=1, default=0)
    topic_partitions: Sequence[Topic] | None = field(array(Topic))
    timeout_ms: int = field(INT32, default=60000)


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_id: int = field(INT32)
            error_code: int = field(INT16)
            error_message: str | None = field(STRING, default=None)

        topic: str = field(STRING)
        partition_result: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16, since=1, default=0)
    replica_election_results: Sequence[Topic] = field(array(Topic))


API = Api(key=43, versions=range(3), flexible_from=2, request=Request, response=Response)

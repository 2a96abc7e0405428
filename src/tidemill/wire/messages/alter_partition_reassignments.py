"""AlterPartitionReassignments: key 45, v0-1, flexible from v0.

Assigns partitions to other brokers, or, with null replicas, cancels what is under way (KIP-455).

v1  request and response: allow_replication_factor_change; a request may forbid changes of the replication factor
    (KIP-860)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            replicas: Sequence[int] | None = field(array(INT32), default=None)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    timeout_ms: int = field(INT32, default=60000)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    topics: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            error_code: int = field(INT16)
            error_message: str | None = field(STRING, default=None)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, default=0)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)
    responses: Sequence[Topic] = field(array(Topic))


API = Api(key=45, versions=range(2), flexible_from=0, request=Request, response=Response)

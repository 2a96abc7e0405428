"""DescribeProducers: key 61, v0, flexible from v0.

Returns the active producers of partitions and their open transactions (KIP-664).
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        name: str = field(STRING)
        partition_indexes: Sequence[int] = field(array(INT32))

    topics: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            class ActiveProducer(Message):
                producer_id: int = field(INT64)
                producer_epoch: int = field(INT32)
                last_sequence: int = field(INT32, default=-1)
                last_timestamp: int = field(INT64, default=-1)
                coordinator_epoch: int = field(INT32)
                current_txn_start_offset: int = field(INT64, default=-1)

            partition_index: int = field(INT32)
            error_code: int = field(INT16)
            error_message: str | None = field(STRING, default=None)
            active_producers: Sequence[ActiveProducer] = field(array(ActiveProducer))

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, default=0)
    topics: Sequence[Topic] = field(array(Topic))


API = Api(key=61, versions=range(1), flexible_from=0, request=Request, response=Response)

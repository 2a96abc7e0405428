"""TxnOffsetCommit: key 28, v0-5, flexible from v3.

Commits offsets of a group as part of a transaction.

v2  request: committed_leader_epoch
v3  request: generation_id, member_id, group_instance_id; fencing by the group's generation (KIP-447); flexible
v4  may return TRANSACTION_ABORTABLE (KIP-890)
v5  adds the group to the transaction implicitly (KIP-890)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            committed_offset: int = field(INT64)
            committed_leader_epoch: int = field(INT32, since=2, default=-1)
            committed_metadata: str | None = field(STRING)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    transactional_id: str = field(STRING)
    group_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    generation_id: int = field(INT32, since=3, default=-1)
    member_id: str = field(STRING, since=3, default="")
    group_instance_id: str | None = field(STRING, since=3, default=None)
    topics: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            error_code: int = field(INT16)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, default=0)
    topics: Sequence[Topic] = field(array(Topic))


API = Api(key=28, versions=range(6), flexible_from=3, request=Request, response=Response)

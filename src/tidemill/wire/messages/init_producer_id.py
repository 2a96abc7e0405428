"""InitProducerId: key 22, v0-5, flexible from v2.

Allocates a producer id and epoch for an idempotent or transactional producer.

v2  flexible
v3  request: producer_id, producer_epoch; a producer may keep its id and raise its epoch (KIP-360)
v4  may return PRODUCER_FENCED
v5  may return TRANSACTION_ABORTABLE (KIP-890)

Kafka's v6 (two-phase commit, KIP-939) is not supported; a released Kafka 4.3 does not advertise it either.
"""

from tidemill.wire.primitives import INT16, INT32, INT64, STRING
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    transactional_id: str | None = field(STRING)
    transaction_timeout_ms: int = field(INT32)
    producer_id: int = field(INT64, since=3, default=-1)
    producer_epoch: int = field(INT16, since=3, default=-1)


class Response(Message):
    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, default=-1)
    producer_epoch: int = field(INT16)


API = Api(key=22, versions=range(6), flexible_from=2, request=Request, response=Response)

"""InitProducerId: key 22, v0-5, flexible from v2.

A producer id and epoch, for idempotent and transactional producers.

v2  flexible
v3  request: producer_id, producer_epoch; a producer may come back with its id (KIP-360)
v4  PRODUCER_FENCED may be answered
v5  TRANSACTION_ABORTABLE may be answered (KIP-890)

Kafka's v6 (two-phase commit, KIP-939) is not spoken: a released Kafka 4.3 does not offer it either.
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

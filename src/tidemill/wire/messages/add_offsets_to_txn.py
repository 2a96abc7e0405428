"""AddOffsetsToTxn: key 25, v0-4, flexible from v3.

Adds a consumer group to a transaction that is about to commit offsets of that group.

v2  may return PRODUCER_FENCED
v3  flexible
v4  may return TRANSACTION_ABORTABLE (KIP-890)
"""

from tidemill.wire.primitives import INT16, INT32, INT64, STRING
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    group_id: str = field(STRING)


class Response(Message):
    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)


API = Api(key=25, versions=range(5), flexible_from=3, request=Request, response=Response)

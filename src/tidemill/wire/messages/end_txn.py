"""EndTxn: key 26, v0-5, flexible from v3.

Commits or aborts a transaction.

v2  may return PRODUCER_FENCED
v3  flexible
v4  may return TRANSACTION_ABORTABLE (KIP-890)
v5  response: producer_id, producer_epoch; each transaction has an epoch of its own (KIP-890)
"""

from tidemill.wire.primitives import BOOL, INT16, INT32, INT64, STRING
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)


class Response(Message):
    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, since=5, default=-1)
    producer_epoch: int = field(INT16, since=5, default=-1)


API = Api(key=26, versions=range(6), flexible_from=3, request=Request, response=Response)

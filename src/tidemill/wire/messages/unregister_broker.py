"""UnregisterBroker: key 64, v0, flexible from v0.

Removes a broker from the cluster (KIP-631).
"""

from tidemill.wire.primitives import INT16, INT32, STRING
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    broker_id: int = field(INT32)


class Response(Message):
    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)


API = Api(key=64, versions=range(1), flexible_from=0, request=Request, response=Response)

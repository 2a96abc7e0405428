"""AllocateProducerIds: a broker requests a block of producer ids; the controller answers once the block is
committed.
"""

from tidemill.wire.primitives import INT16, INT32, INT64, STRING
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    broker_id: int = field(INT32)


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    first: int = field(INT64, default=0)  # the first id of the block
    count: int = field(INT32, default=0)


API = Api(key=10_002, versions=range(1), flexible_from=0, request=Request, response=Response)

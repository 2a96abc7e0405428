"""ImageOffset: a broker requests the end offset of the committed metadata log.

The controller answers after it has confirmed its leadership.
"""

from tidemill.wire.primitives import INT16, INT64, STRING
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    pass


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    offset: int = field(INT64, default=0)  # metadata log offset; every acknowledged change is before it


API = Api(key=10_005, versions=range(1), flexible_from=0, request=Request, response=Response)

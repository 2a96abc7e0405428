"""CreateInternalTopic: a broker requests an internal topic; the controller answers once the topic exists."""

from tidemill.wire.primitives import INT16, STRING
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    name: str = field(STRING)


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)


API = Api(key=10_003, versions=range(1), flexible_from=0, request=Request, response=Response)

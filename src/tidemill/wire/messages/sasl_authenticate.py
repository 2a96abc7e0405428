"""SaslAuthenticate: key 36, v0-2, flexible from v2.

Carries one message of the SASL mechanism that SaslHandshake chose, and the broker's reply (KIP-152).

v1  response: session_lifetime_ms; the client reauthenticates before the session expires (KIP-368)
v2  flexible
"""

from tidemill.wire.primitives import BYTES, INT16, INT64, STRING
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    auth_bytes: bytes = field(BYTES)


class Response(Message):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)
    auth_bytes: bytes = field(BYTES)
    session_lifetime_ms: int = field(INT64, since=1, default=0)


API = Api(key=36, versions=range(3), flexible_from=2, request=Request, response=Response)

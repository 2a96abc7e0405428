"""SaslHandshake: key 17, v0-1, never flexible.

Chooses the SASL mechanism of a connection; the response lists those that the broker offers.

v1  the mechanism's messages follow in SaslAuthenticate requests instead of raw frames (KIP-152)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    mechanism: str = field(STRING)


class Response(Message):
    error_code: int = field(INT16)
    mechanisms: Sequence[str] = field(array(STRING))


API = Api(key=17, versions=range(2), flexible_from=None, request=Request, response=Response)

"""FindCoordinator: key 10, v0-6, flexible from v3.

Returns the coordinator of a group (key type 0), a transaction (1) or a share group's partition (2).

v1  request: key_type; response: throttle_time_ms, error_message
v3  flexible
v4  request: coordinator_keys in place of key; response: coordinators in place of error_code, error_message, node_id,
    host, port; many keys at once (KIP-699)
v5  may return TRANSACTION_ABORTABLE (KIP-890)
v6  key type 2 (KIP-932)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT8, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    key: str = field(STRING, until=4, default="")
    key_type: int = field(INT8, since=1, default=0)
    coordinator_keys: Sequence[str] = field(array(STRING), since=4, default=())


class Response(Message):
    class Coordinator(Message):
        key: str = field(STRING)
        node_id: int = field(INT32)
        host: str = field(STRING)
        port: int = field(INT32)
        error_code: int = field(INT16)
        error_message: str | None = field(STRING, default=None)

    throttle_time_ms: int = field(INT32, since=1, default=0)
    error_code: int = field(INT16, until=4, default=0)
    error_message: str | None = field(STRING, since=1, until=4, default=None)
    node_id: int = field(INT32, until=4, default=0)
    host: str = field(STRING, until=4, default="")
    port: int = field(INT32, until=4, default=0)
    coordinators: Sequence[Coordinator] = field(array(Coordinator), since=4, default=())


API = Api(key=10, versions=range(7), flexible_from=3, request=Request, response=Response)

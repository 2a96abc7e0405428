"""DescribeCluster: key 60, v0-2, flexible from v0.

Returns the brokers and the controller of the cluster.

v1  request and response: endpoint_type; brokers or controllers (KIP-919)
v2  request: include_fenced_brokers; response: is_fenced; fenced brokers (KIP-1073)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT8, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    include_cluster_authorized_operations: bool = field(BOOL)
    endpoint_type: int = field(INT8, since=1, default=1)
    include_fenced_brokers: bool = field(BOOL, since=2, default=False)


class Response(Message):
    class Broker(Message):
        broker_id: int = field(INT32)
        host: str = field(STRING)
        port: int = field(INT32)
        rack: str | None = field(STRING, default=None)
        is_fenced: bool = field(BOOL, since=2, default=False)

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)
    endpoint_type: int = field(INT8, since=1, default=1)
    cluster_id: str = field(STRING)
    controller_id: int = field(INT32, default=-1)
    brokers: Sequence[Broker] = field(array(Broker))
    cluster_authorized_operations: int = field(INT32, default=-2147483648)


API = Api(key=60, versions=range(3), flexible_from=0, request=Request, response=Response)

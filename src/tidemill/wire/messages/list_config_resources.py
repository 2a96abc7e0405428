"""ListConfigResources: key 74, v0-1, flexible from v0.

Returns the names of the resources that have configurations.  v0 is ListClientMetricsResources (KIP-714).

v1  request: resource_types; response: resource_type; resources of every type (KIP-1142)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT8, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    resource_types: Sequence[int] = field(array(INT8), since=1, default=())


class Response(Message):
    class ConfigResource(Message):
        resource_name: str = field(STRING)
        resource_type: int = field(INT8, since=1, default=16)

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    config_resources: Sequence[ConfigResource] = field(array(ConfigResource))


API = Api(key=74, versions=range(2), flexible_from=0, request=Request, response=Response)

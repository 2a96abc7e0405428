"""IncrementalAlterConfigs: key 44, v0-1, flexible from v1.

Changes individual config keys: 0 set, 1 delete, 2 append, 3 subtract (KIP-339).

v1  flexible
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT8, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Resource(Message):
        class Config(Message):
            name: str = field(STRING)
            config_operation: int = field(INT8)
            value: str | None = field(STRING)

        resource_type: int = field(INT8)
        resource_name: str = field(STRING)
        configs: Sequence[Config] = field(array(Config))

    resources: Sequence[Resource] = field(array(Resource))
    validate_only: bool = field(BOOL)


class Response(Message):
    class Resource(Message):
        error_code: int = field(INT16)
        error_message: str | None = field(STRING, default=None)
        resource_type: int = field(INT8)
        resource_name: str = field(STRING)

    throttle_time_ms: int = field(INT32, default=0)
    responses: Sequence[Resource] = field(array(Resource))


API = Api(key=44, versions=range(2), flexible_from=1, request=Request, response=Response)

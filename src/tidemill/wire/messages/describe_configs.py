"""DescribeConfigs: key 32, v1-4, flexible from v4.

Returns the configs of topics and brokers, with the source of each value.

v1  response: without is_default
v3  request: include_documentation; response: config_type, documentation; types and documentation (KIP-569)
v4  flexible
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT8, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Resource(Message):
        resource_type: int = field(INT8)
        resource_name: str = field(STRING)
        configuration_keys: Sequence[str] | None = field(array(STRING))

    resources: Sequence[Resource] = field(array(Resource))
    include_synonyms: bool = field(BOOL, default=False)
    include_documentation: bool = field(BOOL, since=3, default=False)


class Response(Message):
    class Resource(Message):
        class Config(Message):
            class Synonym(Message):
                name: str = field(STRING)
                value: str | None = field(STRING, default=None)
                source: int = field(INT8)

            name: str = field(STRING)
            value: str | None = field(STRING, default=None)
            read_only: bool = field(BOOL)
            config_source: int = field(INT8, default=-1)
            is_sensitive: bool = field(BOOL)
            synonyms: Sequence[Synonym] = field(array(Synonym))
            config_type: int = field(INT8, since=3, default=0)
            documentation: str | None = field(STRING, since=3, default=None)

        error_code: int = field(INT16)
        error_message: str | None = field(STRING, default=None)
        resource_type: int = field(INT8)
        resource_name: str = field(STRING)
        configs: Sequence[Config] = field(array(Config))

    throttle_time_ms: int = field(INT32, default=0)
    results: Sequence[Resource] = field(array(Resource))


API = Api(key=32, versions=range(1, 5), flexible_from=4, request=Request, response=Response)

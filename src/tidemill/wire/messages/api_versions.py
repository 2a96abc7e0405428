"""ApiVersions: key 18, v0-4, flexible from v3.

Returns the APIs and versions that the broker supports; most clients send it first.  The response header
never has tagged fields.  An unknown version gets a v0 response with UNSUPPORTED_VERSION and all keys
(KIP-511).

v1  response: throttle_time_ms
v3  request: client_software_name, client_software_version; response: supported_features, finalized_features_epoch,
    finalized_features, zk_migration_ready; the name of the client, and features (KIP-511, KIP-584); flexible
v4  features may start at version 0 (KAFKA-17011)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    client_software_name: str = field(STRING, since=3, default="")
    client_software_version: str = field(STRING, since=3, default="")


class Response(Message):
    class ApiKey(Message):
        api_key: int = field(INT16)
        min_version: int = field(INT16)
        max_version: int = field(INT16)

    class SupportedFeature(Message):
        name: str = field(STRING)
        min_version: int = field(INT16)
        max_version: int = field(INT16)

    class FinalizedFeature(Message):
        name: str = field(STRING)
        max_version_level: int = field(INT16)
        min_version_level: int = field(INT16)

    error_code: int = field(INT16)
    api_keys: Sequence[ApiKey] = field(array(ApiKey))
    throttle_time_ms: int = field(INT32, since=1, default=0)
    supported_features: Sequence[SupportedFeature] = field(array(SupportedFeature), since=3, tag=0, default=())
    finalized_features_epoch: int = field(INT64, since=3, tag=1, default=-1)
    finalized_features: Sequence[FinalizedFeature] = field(array(FinalizedFeature), since=3, tag=2, default=())
    zk_migration_ready: bool = field(BOOL, since=3, tag=3, default=False)


API = Api(key=18, versions=range(5), flexible_from=3, request=Request, response=Response)

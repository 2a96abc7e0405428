"""UpdateFeatures: key 57, v0-2, flexible from v0.

Raises or lowers the levels of a cluster's features (KIP-584).

v1  request: upgrade_type, validate_only in place of allow_downgrade; dry runs (KIP-778)
v2  response: without results; all features are changed, or none (KIP-1022)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT8, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Update(Message):
        feature: str = field(STRING)
        max_version_level: int = field(INT16)
        allow_downgrade: bool = field(BOOL, until=1, default=False)
        upgrade_type: int = field(INT8, since=1, default=1)

    timeout_ms: int = field(INT32, default=60000)
    feature_updates: Sequence[Update] = field(array(Update))
    validate_only: bool = field(BOOL, since=1, default=False)


class Response(Message):
    class Result(Message):
        feature: str = field(STRING)
        error_code: int = field(INT16)
        error_message: str | None = field(STRING, default=None)

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)
    results: Sequence[Result] = field(array(Result), until=2, default=())


API = Api(key=57, versions=range(3), flexible_from=0, request=Request, response=Response)

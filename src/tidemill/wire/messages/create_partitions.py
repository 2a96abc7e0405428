"""CreatePartitions: key 37, v0-3, flexible from v2.

Increases the partition counts of topics.

v2  flexible
v3  may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import BOOL, INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Assignment(Message):
            broker_ids: Sequence[int] = field(array(INT32))

        name: str = field(STRING)
        count: int = field(INT32)
        assignments: Sequence[Assignment] | None = field(array(Assignment))

    topics: Sequence[Topic] = field(array(Topic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


class Response(Message):
    class Topic(Message):
        name: str = field(STRING)
        error_code: int = field(INT16)
        error_message: str | None = field(STRING, default=None)

    throttle_time_ms: int = field(INT32, default=0)
    results: Sequence[Topic] = field(array(Topic))


API = Api(key=37, versions=range(4), flexible_from=2, request=Request, response=Response)

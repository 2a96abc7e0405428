"""DeleteShareGroupOffsets: key 92, v0, flexible from v0.

Deletes the offsets of topics in a share group without members (KIP-932).
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        topic_name: str = field(STRING)

    group_id: str = field(STRING)
    topics: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        topic_name: str = field(STRING)
        topic_id: TopicId = field(UUID)
        error_code: int = field(INT16)
        error_message: str | None = field(STRING, default=None)

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)
    responses: Sequence[Topic] = field(array(Topic))


API = Api(key=92, versions=range(1), flexible_from=0, request=Request, response=Response)

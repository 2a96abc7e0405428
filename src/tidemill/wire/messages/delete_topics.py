"""DeleteTopics: key 20, v1-6, flexible from v4.

Deletes topics by name or id.

v4  flexible
v5  response: error_message; may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
v6  request: topics in place of topic_names; response: topic_id; topics by id (KIP-516)
"""

from collections.abc import Sequence

from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.primitives import INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        name: str | None = field(STRING, default=None)
        topic_id: TopicId = field(UUID)

    topics: Sequence[Topic] = field(array(Topic), since=6, default=())
    topic_names: Sequence[str] = field(array(STRING), until=6, default=())
    timeout_ms: int = field(INT32)


class Response(Message):
    class Topic(Message):
        name: str | None = field(STRING, nullable_since=6, default=None)
        topic_id: TopicId = field(UUID, since=6, default=NO_TOPIC_ID)
        error_code: int = field(INT16)
        error_message: str | None = field(STRING, since=5, default=None)

    throttle_time_ms: int = field(INT32, default=0)
    responses: Sequence[Topic] = field(array(Topic))


API = Api(key=20, versions=range(1, 7), flexible_from=4, request=Request, response=Response)

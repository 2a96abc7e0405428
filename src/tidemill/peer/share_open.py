"""ShareOpen: a partition's leader asks a group's coordinator for the incarnation of the group's share, and its start.

The coordinator answers when the incarnation is committed.
"""

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import BOOL, INT8, INT16, INT32, INT64, STRING, UUID
from tidemill.wire.schema import Api, Message, field

# The values of `start_rule`.
EARLIEST = 0
LATEST = 1
BY_DURATION = 2


class Request(Message):
    group_id: str = field(STRING)
    topic_id: TopicId = field(UUID)
    partition: int = field(INT32)
    # Whether a missing group is created, and a topic that the group does not know is added: for consumers that send no
    # heartbeats.
    may_create: bool = field(BOOL, tag=0, default=False)


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    incarnation: int = field(INT64, default=0)
    start_rule: int = field(INT8, default=0)
    start_duration_ms: int = field(INT64, default=0)  # for BY_DURATION


API = Api(key=10_006, versions=range(1), flexible_from=0, request=Request, response=Response)

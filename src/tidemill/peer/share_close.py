"""ShareClose: a group's coordinator asks the leader of partitions to remove the state of a deleted share group.

The leader answers when the removal is committed, with the partitions of which it could not remove the state now.
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    group_id: str = field(STRING)
    topic_id: TopicId = field(UUID)
    incarnation: int = field(INT64)  # a share with a greater incarnation is kept
    partitions: Sequence[int] = field(array(INT32))


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    refused: Sequence[int] = field(array(INT32), default=())  # partitions


API = Api(key=10_007, versions=range(1), flexible_from=0, request=Request, response=Response)

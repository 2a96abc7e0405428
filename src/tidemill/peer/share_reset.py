"""ShareReset: a group's coordinator asks the leader of partitions to begin the group's shares anew at other offsets.

The leader answers when the new shares are committed.  It refuses (NON_EMPTY_GROUP) while a consumer holds records.
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Partition(Message):
        topic_id: TopicId = field(UUID)
        partition: int = field(INT32)
        incarnation: int = field(INT64)  # of the group's use of the topic; a share with a greater one is kept
        start: int = field(INT64)  # where the share begins; the log start, if that is greater

    group_id: str = field(STRING)
    partitions: Sequence[Partition] = field(array(Partition))


class Response(Message):
    class Outcome(Message):
        error_code: int = field(INT16, default=0)
        error_message: str | None = field(STRING, default=None)

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    outcomes: Sequence[Outcome] = field(array(Outcome), default=())  # in the order of the request


API = Api(key=10_009, versions=range(1), flexible_from=0, request=Request, response=Response)

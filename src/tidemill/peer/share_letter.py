"""ShareLetter: writes the dead letter of a share group to a partition, on the partition's leader.

The leader of the partition with the dead record sends it.  The answer comes when the letter has committed, as for a
Produce request with acks=all; a letter that is sent again is a duplicate, and is answered in the same way.
"""

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT16, INT32, RECORDS, STRING, UUID
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    topic_id: TopicId = field(UUID)
    partition: int = field(INT32)
    records: memoryview | None = field(RECORDS)  # one batch with one record, from an idempotent producer


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)


API = Api(key=10_017, versions=range(1), flexible_from=0, request=Request, response=Response)

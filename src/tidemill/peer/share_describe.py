"""ShareDescribe: asks the leader of partitions for the state of a group's shares.

Brokers send it for DescribeShareGroupOffsets and the console, commands send it to the Kafka listener.  The leader
answers after it has confirmed its leadership.
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Partition(Message):
        topic_id: TopicId = field(UUID)
        partition: int = field(INT32)

    group_id: str = field(STRING)
    partitions: Sequence[Partition] = field(array(Partition))


class Response(Message):
    class Share(Message):
        error_code: int = field(INT16, default=0)
        leader_epoch: int = field(INT32, default=-1)
        start: int = field(INT64, default=-1)  # -1 if the partition has no share of the group
        lag: int = field(INT64, default=-1)  # offsets that are not finished
        end: int = field(INT64, default=-1)  # the high watermark
        available: int = field(INT64, default=0)  # records that a consumer could acquire now
        delayed: int = field(INT64, default=0)  # records that wait for their release time
        held: int = field(INT64, default=0)  # records that consumers hold
        archiving: int = field(INT64, default=0)  # dead records whose dead letter is not written yet
        expired_unread: int = field(INT64, default=0)  # offsets that retention removed before they were finished
        oldest_ms: int = field(INT64, default=-1)  # the timestamp of the first record that is not finished; -1: none
        blocked_by: str | None = field(STRING, default=None)  # why available records are not delivered; None: nothing
        incarnation: int = field(INT64, default=0)  # of the group's use of the topic; 0 if there is no share

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    shares: Sequence[Share] = field(array(Share), default=())  # in the order of the request


API = Api(key=10_008, versions=range(1), flexible_from=0, request=Request, response=Response)

"""ShareReceipts: acknowledges records of one partition by receipts, for a consumer over HTTP.

The broker that the consumer asks sends it to the partition's leader, which answers when the decisions are committed.
It may be repeated: the outcomes are the same.  `share/acknowledged_receipts` has the rules.
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import INT8, INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field

BY_POLICY = -1  # the value of `delay_ms` that applies the group's back-off
OF_GROUP = -1  # the value of `lock_ms` that applies the group's lock duration


class Request(Message):
    class Delivery(Message):
        offset: int = field(INT64)
        term: int = field(INT32)
        delivery_count: int = field(INT16)
        lease: int = field(INT64)

    group_id: str = field(STRING)
    topic_id: TopicId = field(UUID)
    partition: int = field(INT32)
    acknowledge_type: int = field(INT8)  # 1 accept, 2 release, 3 reject, 4 renew, 5 undo the delivery
    deliveries: Sequence[Delivery] = field(array(Delivery))
    delay_ms: int = field(INT64, default=BY_POLICY)  # until released records are available again
    lock_ms: int = field(INT32, default=OF_GROUP)  # the duration of renewed locks


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    lock_ms: int = field(INT32, default=0)  # how long renewed locks last from the response on
    outcomes: Sequence[int] = field(array(INT8), default=())  # 0 ok, 1 expired, 2 unknown; in the order of the request


API = Api(key=10_018, versions=range(1), flexible_from=0, request=Request, response=Response)

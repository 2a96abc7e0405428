"""ShareReceive: acquires records of one partition for a consumer without a share session.

Commands and Spark send it to the Kafka listener of the partition's leader, and brokers for consumers over HTTP.  The
consumer's locks end when it resolves the records (ShareResolve) or sends their receipts (ShareReceipts), or with time;
no connection has to stay open.  A consumer that already holds records of the partition gets these, with renewed locks,
and no others: so a repeated request has the same result.  With a `lease`, this is so for each lease: a consumer over
HTTP sends another one with every request.
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.peer.share_receipts import OF_GROUP
from tidemill.wire.primitives import BOOL, INT16, INT32, INT64, RECORDS, STRING, UUID, Records, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    group_id: str = field(STRING)
    topic_id: TopicId = field(UUID)
    partition: int = field(INT32)
    member_id: str = field(STRING)  # chosen by the consumer
    max_records: int = field(INT32)  # 0: nothing is acquired; the response has what the consumer holds, without bytes
    max_bytes: int = field(INT32)  # 0: the response has no bytes, because the consumer fetches them later
    max_wait_ms: int = field(INT32)
    lease: int = field(INT64, tag=0, default=0)  # a random number, which makes receipts possible; 0: none
    lock_ms: int = field(INT32, tag=1, default=OF_GROUP)  # the duration of the locks; OF_GROUP: the group's


class Response(Message):
    class AcquiredRecords(Message):
        first_offset: int = field(INT64)
        last_offset: int = field(INT64)
        delivery_count: int = field(INT16)

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    lock_ms: int = field(INT32, default=0)
    acquired: Sequence[AcquiredRecords] = field(array(AcquiredRecords), default=())
    records: Records = field(RECORDS, default=b"")  # whole batches; only acquired records are delivered
    is_exclusive: bool = field(BOOL, tag=0, default=False)  # whether one member at a time may acquire records
    withheld_ms: int = field(INT32, tag=1, default=0)  # how long the leader withholds available records; 0: it does not
    term: int = field(INT32, tag=2, default=-1)  # of the leader, for receipts; -1 without a lease


API = Api(key=10_016, versions=range(1), flexible_from=0, request=Request, response=Response)

"""TimerList: asks the leader of a partition of a timer topic for records that wait, those that are due first in front.

Commands and HTTP send it to the Kafka listener.  The leader answers after it has confirmed its leadership, so the
answer has every record whose producer was answered before the request.
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.peer.timer_resolve import UNBOUNDED, Selection
from tidemill.wire.primitives import BOOL, BYTES, INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    topic_id: TopicId = field(UUID)
    partition: int = field(INT32)
    selection: Selection | None = field(Selection, default=None)
    timer_ids: Sequence[bytes] = field(array(BYTES), default=())  # only timers with these ids, if there are any
    after_due_ms: int = field(INT64, default=UNBOUNDED)  # with `after_arrival`: only records behind this one
    after_arrival: int = field(INT64, default=UNBOUNDED)
    is_by_arrival: bool = field(BOOL, default=False)  # in the order of arrival, behind `after_arrival`: for reading all
    max_records: int = field(INT32, default=0)
    has_values: bool = field(BOOL, default=False)
    edges_ms: Sequence[int] = field(array(INT64), default=())  # ascending times: count the records between each two


class Response(Message):
    class Record(Message):
        class Header(Message):
            name: str = field(STRING)
            value: bytes | None = field(BYTES, default=None)

        arrival: int = field(INT64)
        due_ms: int = field(INT64)
        timestamp_ms: int = field(INT64)  # the producer's
        size_bytes: int = field(INT32)
        timer_id: bytes | None = field(BYTES, default=None)
        key: bytes | None = field(BYTES, default=None)
        value: bytes | None = field(BYTES, default=None)  # None, too, if values were not asked for
        headers: Sequence[Header] = field(array(Header), default=())

    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    waiting: int = field(INT64, default=0)  # all records that wait in the partition
    waiting_bytes: int = field(INT64, default=0)  # about
    next_due_ms: int = field(INT64, default=UNBOUNDED)
    end: int = field(INT64, default=0)  # the next arrival number
    limit_ms: int = field(INT64, default=UNBOUNDED)  # the time by the release clock of the partition
    records: Sequence[Record] = field(array(Record), default=())
    has_more: bool = field(BOOL, default=False)
    counts: Sequence[int] = field(array(INT64), default=())  # before the first edge, between edges, from the last on


API = Api(key=10_020, versions=range(1), flexible_from=0, request=Request, response=Response)

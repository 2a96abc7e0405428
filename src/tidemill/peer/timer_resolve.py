"""TimerResolve: cancels records that wait in one partition of a timer topic, or changes when they are due.

Commands, HTTP and brokers send it to the Kafka listener of the partition's leader, which answers when the decision is
committed.  The records are named by arrival numbers, by the ids of timers, or by a selection.
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import BOOL, BYTES, INT8, INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field

CANCEL = 0
RESCHEDULE = 1  # to `due_ms`
SHIFT = 2  # each by `due_ms`, which may be negative
UNBOUNDED = -1


class Selection(Message):
    """The records that wait with all of these properties."""

    key: bytes | None = field(BYTES, default=None)  # None: any key
    key_prefix: bytes | None = field(BYTES, default=None)
    due_from_ms: int = field(INT64, default=UNBOUNDED)
    due_before_ms: int = field(INT64, default=UNBOUNDED)
    is_recurring: bool = field(BOOL, default=False)  # it has a schedule


class Request(Message):
    topic_id: TopicId = field(UUID)
    partition: int = field(INT32)
    operation: int = field(INT8)
    due_ms: int = field(INT64, default=UNBOUNDED)
    arrivals: Sequence[int] = field(array(INT64), default=())
    timer_ids: Sequence[bytes] = field(array(BYTES), default=())
    selection: Selection | None = field(Selection, default=None)
    is_trial: bool = field(BOOL, default=False)  # count the records, and change nothing


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    changed: int = field(INT64, default=0)  # cancelled or rescheduled; in a trial, those that would be
    over: int = field(INT64, default=0)  # released, cancelled or replaced before
    unknown: int = field(INT64, default=0)  # no such arrival, or no timer with such an id waits


API = Api(key=10_019, versions=range(1), flexible_from=0, request=Request, response=Response)

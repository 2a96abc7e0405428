"""ShareResolve: acknowledges records of one partition for a consumer without a share session, or for an operator.

Commands and Spark send it to the Kafka listener of the partition's leader, which answers when the decision is
committed.  A consumer names itself and resolves records that it holds, also those that it has receipts for.  An
operator sends an empty member id and resolves records that no consumer holds.
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field

NOT_LISTED = -1  # the value of `held_as` that leaves records outside `batches` as they are
BY_POLICY = -1  # the value of `delay_ms` that applies the group's back-off


class Request(Message):
    class Batch(Message):
        first_offset: int = field(INT64)
        last_offset: int = field(INT64)
        acknowledge_types: Sequence[int] = field(array(INT8))  # one for all offsets, or one for each (KIP-932)

    group_id: str = field(STRING)
    topic_id: TopicId = field(UUID)
    partition: int = field(INT32)
    member_id: str = field(STRING)
    batches: Sequence[Batch] = field(array(Batch), default=())
    held_as: int = field(INT8, default=NOT_LISTED)  # the type for the other records that the member holds
    delay_ms: int = field(INT64, default=BY_POLICY)  # until released records are available again
    is_trial: bool = field(BOOL, default=False)  # of an operator: count the records, and change nothing


class Response(Message):
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, default=None)
    resolved: int = field(INT64, default=0)  # records whose state this request has changed, or in a trial would change
    finished: int = field(INT64, default=0)  # records that were finished, or dead, before
    held: int = field(INT64, default=0)  # records that another consumer holds, or whose decision is not committed


API = Api(key=10_015, versions=range(1), flexible_from=0, request=Request, response=Response)

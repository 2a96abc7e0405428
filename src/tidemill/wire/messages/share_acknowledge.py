"""ShareAcknowledge: key 79, v1-2, flexible from v1.

Acknowledges records that a member of a share group holds (KIP-932).

v2   request: is_renew_ack; response: acquisition_lock_timeout_ms; renews locks (KIP-1222)
"""

from collections.abc import Sequence

from tidemill.model.topic import TopicId
from tidemill.wire.primitives import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            class AcknowledgementBatch(Message):
                first_offset: int = field(INT64)
                last_offset: int = field(INT64)
                acknowledge_types: Sequence[int] = field(array(INT8))

            partition_index: int = field(INT32)
            acknowledgement_batches: Sequence[AcknowledgementBatch] = field(array(AcknowledgementBatch))

        topic_id: TopicId = field(UUID)
        partitions: Sequence[Partition] = field(array(Partition))

    group_id: str | None = field(STRING, default=None)
    member_id: str | None = field(STRING)
    share_session_epoch: int = field(INT32)
    is_renew_ack: bool = field(BOOL, since=2, default=False)
    topics: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            class CurrentLeader(Message):
                leader_id: int = field(INT32)
                leader_epoch: int = field(INT32)

            partition_index: int = field(INT32)
            error_code: int = field(INT16)
            error_message: str | None = field(STRING, default=None)
            current_leader: CurrentLeader = field(CurrentLeader)

        topic_id: TopicId = field(UUID)
        partitions: Sequence[Partition] = field(array(Partition))

    class NodeEndpoint(Message):
        node_id: int = field(INT32)
        host: str = field(STRING)
        port: int = field(INT32)
        rack: str | None = field(STRING, default=None)

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, default=None)
    acquisition_lock_timeout_ms: int = field(INT32, since=2, default=0)
    responses: Sequence[Topic] = field(array(Topic))
    node_endpoints: Sequence[NodeEndpoint] = field(array(NodeEndpoint))


API = Api(key=79, versions=range(1, 3), flexible_from=1, request=Request, response=Response)

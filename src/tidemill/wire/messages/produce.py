"""Produce: key 0, v0-13, flexible from v9.

Appends record batches to partitions and returns their offsets.  There is no response with acks=0.
v0-2 carry formats older than record batch v2 and are refused.  They are advertised because librdkafka does
not compress batches for brokers that do not advertise them (KAFKA-18659).

v1   response: throttle_time_ms
v2   response: log_append_time_ms
v3   request: transactional_id; record batch v2 only
v4   may return KAFKA_STORAGE_ERROR
v5   response: log_start_offset
v7   batches may be compressed with zstd (KIP-110)
v8   response: record_errors, error_message; the indexes of refused records (KIP-467)
v9   flexible
v10  response: current_leader, node_endpoints; NOT_LEADER_OR_FOLLOWER carries the new leader (KIP-951)
v11  may return TRANSACTION_ABORTABLE (KIP-890)
v12  adds partitions to the transaction implicitly (KIP-890)
v13  request and response: topic_id in place of name; topics by id (KIP-516)
"""

from collections.abc import Sequence

from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.primitives import INT16, INT32, INT64, RECORDS, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            index: int = field(INT32)
            records: memoryview | None = field(RECORDS)

        name: str = field(STRING, until=13, default="")
        topic_id: TopicId = field(UUID, since=13, default=NO_TOPIC_ID)
        partition_data: Sequence[Partition] = field(array(Partition))

    transactional_id: str | None = field(STRING, since=3, default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: Sequence[Topic] = field(array(Topic))


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            class RecordError(Message):
                batch_index: int = field(INT32)
                batch_index_error_message: str | None = field(STRING, default=None)

            class CurrentLeader(Message):
                leader_id: int = field(INT32, default=-1)
                leader_epoch: int = field(INT32, default=-1)

            index: int = field(INT32)
            error_code: int = field(INT16)
            base_offset: int = field(INT64)
            log_append_time_ms: int = field(INT64, since=2, default=-1)
            log_start_offset: int = field(INT64, since=5, default=-1)
            record_errors: Sequence[RecordError] = field(array(RecordError), since=8, default=())
            error_message: str | None = field(STRING, since=8, default=None)
            current_leader: CurrentLeader | None = field(CurrentLeader, since=10, tag=0, default=None)

        name: str = field(STRING, until=13, default="")
        topic_id: TopicId = field(UUID, since=13, default=NO_TOPIC_ID)
        partition_responses: Sequence[Partition] = field(array(Partition))

    class NodeEndpoint(Message):
        node_id: int = field(INT32)
        host: str = field(STRING)
        port: int = field(INT32)
        rack: str | None = field(STRING, default=None)

    responses: Sequence[Topic] = field(array(Topic))
    throttle_time_ms: int = field(INT32, since=1, default=0)
    node_endpoints: Sequence[NodeEndpoint] = field(array(NodeEndpoint), since=10, tag=0, default=())


API = Api(key=0, versions=range(14), flexible_from=9, request=Request, response=Response)

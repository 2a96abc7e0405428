"""Fetch: key 1, v4-18, flexible from v12.

Returns record batches of partitions, as soon as min_bytes are available or max_wait_ms have passed.

v5   request and response: log_start_offset
v6   may return KAFKA_STORAGE_ERROR
v7   request: session_id, session_epoch, forgotten_topics_data; response: error_code, session_id; incremental sessions
     (KIP-227)
v9   request: current_leader_epoch; fencing by leader epoch (KIP-320)
v10  batches may be compressed with zstd (KIP-110)
v11  request: rack_id; response: preferred_read_replica; fetching from followers (KIP-392)
v12  request: cluster_id, last_fetched_epoch; response: diverging_epoch, current_leader, snapshot_id; flexible
v13  request and response: topic_id in place of topic; topics by id (KIP-516)
v14  may return OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
v15  request: replica_state in place of replica_id; replicas are fenced by their broker's epoch (KIP-903)
v16  response: node_endpoints; the endpoint of the new leader (KIP-951)
v17  request: replica_directory_id; the replica's directory id (KIP-853)
v18  request: high_watermark; the replica's high watermark (KIP-1166)
"""

from collections.abc import Sequence

from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.primitives import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Records, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class ReplicaState(Message):
        replica_id: int = field(INT32, default=-1)
        replica_epoch: int = field(INT64, default=-1)

    class Topic(Message):
        class Partition(Message):
            partition: int = field(INT32)
            current_leader_epoch: int = field(INT32, since=9, default=-1)
            fetch_offset: int = field(INT64)
            last_fetched_epoch: int = field(INT32, since=12, default=-1)
            log_start_offset: int = field(INT64, since=5, default=-1)
            partition_max_bytes: int = field(INT32)
            replica_directory_id: bytes = field(UUID, since=17, tag=0, default=bytes(16))
            high_watermark: int = field(INT64, since=18, tag=1, default=0x7FFFFFFFFFFFFFFF)

        topic: str = field(STRING, until=13, default="")
        topic_id: TopicId = field(UUID, since=13, default=NO_TOPIC_ID)
        partitions: Sequence[Partition] = field(array(Partition))

    class ForgottenTopic(Message):
        topic: str = field(STRING, until=13, default="")
        topic_id: TopicId = field(UUID, since=13, default=NO_TOPIC_ID)
        partitions: Sequence[int] = field(array(INT32))

    cluster_id: str | None = field(STRING, since=12, tag=0, default=None)
    replica_id: int = field(INT32, until=15, default=-1)
    replica_state: ReplicaState | None = field(ReplicaState, since=15, tag=1, default=None)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=0x7FFFFFFF)
    isolation_level: int = field(INT8, default=0)
    session_id: int = field(INT32, since=7, default=0)
    session_epoch: int = field(INT32, since=7, default=-1)
    topics: Sequence[Topic] = field(array(Topic))
    forgotten_topics_data: Sequence[ForgottenTopic] = field(array(ForgottenTopic), since=7, default=())
    rack_id: str = field(STRING, since=11, default="")


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            class DivergingEpoch(Message):
                epoch: int = field(INT32, default=-1)
                end_offset: int = field(INT64, default=-1)

            class CurrentLeader(Message):
                leader_id: int = field(INT32, default=-1)
                leader_epoch: int = field(INT32, default=-1)

            class SnapshotId(Message):
                end_offset: int = field(INT64, default=-1)
                epoch: int = field(INT32, default=-1)

            class AbortedTransaction(Message):
                producer_id: int = field(INT64)
                first_offset: int = field(INT64)

            partition_index: int = field(INT32)
            error_code: int = field(INT16)
            high_watermark: int = field(INT64)
            last_stable_offset: int = field(INT64, default=-1)
            log_start_offset: int = field(INT64, since=5, default=-1)
            diverging_epoch: DivergingEpoch | None = field(DivergingEpoch, since=12, tag=0, default=None)
            current_leader: CurrentLeader | None = field(CurrentLeader, since=12, tag=1, default=None)
            snapshot_id: SnapshotId | None = field(SnapshotId, since=12, tag=2, default=None)
            aborted_transactions: Sequence[AbortedTransaction] | None = field(array(AbortedTransaction), default=None)
            preferred_read_replica: int = field(INT32, since=11, default=-1)
            records: Records | None = field(RECORDS, default=None)

        topic: str = field(STRING, until=13, default="")
        topic_id: TopicId = field(UUID, since=13, default=NO_TOPIC_ID)
        partitions: Sequence[Partition] = field(array(Partition))

    class NodeEndpoint(Message):
        node_id: int = field(INT32)
        host: str = field(STRING)
        port: int = field(INT32)
        rack: str | None = field(STRING, default=None)

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16, since=7, default=0)
    session_id: int = field(INT32, since=7, default=0)
    responses: Sequence[Topic] = field(array(Topic))
    node_endpoints: Sequence[NodeEndpoint] = field(array(NodeEndpoint), since=16, tag=0, default=())


API = Api(key=1, versions=range(4, 19), flexible_from=12, request=Request, response=Response)

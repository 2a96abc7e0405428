"""Metadata: key 3, v0-13, flexible from v9.

Returns the brokers and the leaders of partitions.  Null topics (v0: an empty list) means every topic.

v1   response: rack, controller_id, is_internal
v2   response: cluster_id
v3   response: throttle_time_ms
v4   request: allow_auto_topic_creation
v5   response: offline_replicas
v7   response: leader_epoch; fencing by leader epoch (KIP-320)
v8   request: include_cluster_authorized_operations, include_topic_authorized_operations; response:
     topic_authorized_operations, cluster_authorized_operations
v9   flexible
v10  request and response: topic_id; topic ids (KIP-516)
v11  request: without include_cluster_authorized_operations; response: without cluster_authorized_operations;
     authorized operations of the cluster moved to DescribeCluster (KIP-700)
v12  topics by id in requests
v13  response: error_code; a top-level error: REBOOTSTRAP_REQUIRED (KIP-1102)
"""

from collections.abc import Sequence

from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.primitives import BOOL, INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        topic_id: TopicId = field(UUID, since=10, default=NO_TOPIC_ID)
        name: str | None = field(STRING, nullable_since=10)

    topics: Sequence[Topic] | None = field(array(Topic), nullable_since=1)
    allow_auto_topic_creation: bool = field(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = field(BOOL, since=8, until=11, default=False)
    include_topic_authorized_operations: bool = field(BOOL, since=8, default=False)


class Response(Message):
    class Broker(Message):
        node_id: int = field(INT32)
        host: str = field(STRING)
        port: int = field(INT32)
        rack: str | None = field(STRING, since=1, default=None)

    class Topic(Message):
        class Partition(Message):
            error_code: int = field(INT16)
            partition_index: int = field(INT32)
            leader_id: int = field(INT32)
            leader_epoch: int = field(INT32, since=7, default=-1)
            replica_nodes: Sequence[int] = field(array(INT32))
            isr_nodes: Sequence[int] = field(array(INT32))
            offline_replicas: Sequence[int] = field(array(INT32), since=5, default=())

        error_code: int = field(INT16)
        name: str | None = field(STRING, nullable_since=12, default=None)
        topic_id: TopicId = field(UUID, since=10, default=NO_TOPIC_ID)
        is_internal: bool = field(BOOL, since=1, default=False)
        partitions: Sequence[Partition] = field(array(Partition))
        topic_authorized_operations: int = field(INT32, since=8, default=-2147483648)

    throttle_time_ms: int = field(INT32, since=3, default=0)
    brokers: Sequence[Broker] = field(array(Broker))
    cluster_id: str | None = field(STRING, since=2, default=None)
    controller_id: int = field(INT32, since=1, default=-1)
    topics: Sequence[Topic] = field(array(Topic))
    cluster_authorized_operations: int = field(INT32, since=8, until=11, default=-2147483648)
    error_code: int = field(INT16, since=13, default=0)


# From v9 on, librdkafka's request for all topics ends with three surplus bytes: it reserves four bytes for the length
# of the topic array and does not shrink that space when the compact array is null.
API = Api(key=3, versions=range(14), flexible_from=9, request=Request, response=Response, ignores_trailing_bytes=True)

"""DescribeQuorum: key 55, v0-2, flexible from v0.

Returns the voters and observers of the metadata log (KIP-595).

v1  response: last_fetch_timestamp, last_caught_up_timestamp; when a replica last fetched and was caught up (KIP-836)
v2  response: error_message, nodes, replica_directory_id; the voters' directory ids and endpoints (KIP-853)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT16, INT32, INT64, STRING, UINT16, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)

        topic_name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    topics: Sequence[Topic] = field(array(Topic))


class Replica(Message):
    replica_id: int = field(INT32)
    replica_directory_id: bytes = field(UUID, since=2, default=bytes(16))
    log_end_offset: int = field(INT64)
    last_fetch_timestamp: int = field(INT64, since=1, default=-1)
    last_caught_up_timestamp: int = field(INT64, since=1, default=-1)


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            error_code: int = field(INT16)
            error_message: str | None = field(STRING, since=2, default=None)
            leader_id: int = field(INT32)
            leader_epoch: int = field(INT32)
            high_watermark: int = field(INT64)
            current_voters: Sequence[Replica] = field(array(Replica))
            observers: Sequence[Replica] = field(array(Replica))

        topic_name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    class Node(Message):
        class Listener(Message):
            name: str = field(STRING)
            host: str = field(STRING)
            port: int = field(UINT16)

        node_id: int = field(INT32)
        listeners: Sequence[Listener] = field(array(Listener))

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=2, default=None)
    topics: Sequence[Topic] = field(array(Topic))
    nodes: Sequence[Node] = field(array(Node), since=2, default=())


API = Api(key=55, versions=range(3), flexible_from=0, request=Request, response=Response)

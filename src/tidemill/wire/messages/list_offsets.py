"""ListOffsets: key 2, v1-11, flexible from v6.

Returns offsets by timestamp.  Negative timestamps are special: -2 earliest, -1 latest, -3 greatest timestamp, -4
earliest local, -5 last tiered, -6 earliest not yet tiered.

v1   request: without max_num_offsets; response: without old_style_offsets
v2   request: isolation_level; response: throttle_time_ms
v4   request: current_leader_epoch; response: leader_epoch
v6   flexible
v7   timestamp -3 (KIP-734)
v8   timestamp -4 (KIP-405)
v9   timestamp -5 (KIP-1005)
v10  request: timeout_ms; remote lookups have a time limit (KIP-1075)
v11  timestamp -6 (KIP-1023)
"""

from collections.abc import Sequence

from tidemill.wire.primitives import INT8, INT16, INT32, INT64, STRING, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            current_leader_epoch: int = field(INT32, since=4, default=-1)
            timestamp: int = field(INT64)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, since=2, default=0)
    topics: Sequence[Topic] = field(array(Topic))
    timeout_ms: int = field(INT32, since=10, default=0)


class Response(Message):
    class Topic(Message):
        class Partition(Message):
            partition_index: int = field(INT32)
            error_code: int = field(INT16)
            timestamp: int = field(INT64, default=-1)
            offset: int = field(INT64, default=-1)
            leader_epoch: int = field(INT32, since=4, default=-1)

        name: str = field(STRING)
        partitions: Sequence[Partition] = field(array(Partition))

    throttle_time_ms: int = field(INT32, since=2, default=0)
    topics: Sequence[Topic] = field(array(Topic))


API = Api(key=2, versions=range(1, 12), flexible_from=6, request=Request, response=Response)

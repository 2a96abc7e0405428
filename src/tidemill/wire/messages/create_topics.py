"""CreateTopics: key 19, v2-7, flexible from v5.

Creates topics.  A partition count or replication factor of -1 means the broker's default.

v4  -1 means the broker's default (KIP-464)
v5  response: topic_config_error_code, num_partitions, replication_factor, configs; the number of partitions and the
    configs of a created topic (KIP-525); flexible
v6  may return THROTTLING_QUOTA_EXCEEDED
v7  response: topic_id
"""

from collections.abc import Sequence

from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.primitives import BOOL, INT8, INT16, INT32, STRING, UUID, array
from tidemill.wire.schema import Api, Message, field


class Request(Message):
    class Topic(Message):
        class Assignment(Message):
            partition_index: int = field(INT32)
            broker_ids: Sequence[int] = field(array(INT32))

        class Config(Message):
            name: str = field(STRING)
            value: str | None = field(STRING)

        name: str = field(STRING)
        num_partitions: int = field(INT32)
        replication_factor: int = field(INT16)
        assignments: Sequence[Assignment] = field(array(Assignment))
        configs: Sequence[Config] = field(array(Config))

    topics: Sequence[Topic] = field(array(Topic))
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL, default=False)


class Response(Message):
    class Topic(Message):
        class Config(Message):
            name: str = field(STRING)
            value: str | None = field(STRING, default=None)
            read_only: bool = field(BOOL)
            config_source: int = field(INT8, default=-1)
            is_sensitive: bool = field(BOOL)

        name: str = field(STRING)
        topic_id: TopicId = field(UUID, since=7, default=NO_TOPIC_ID)
        error_code: int = field(INT16)
        error_message: str | None = field(STRING, default=None)
        topic_config_error_code: int = field(INT16, since=5, tag=0, default=0)
        num_partitions: int = field(INT32, since=5, default=-1)
        replication_factor: int = field(INT16, since=5, default=-1)
        configs: Sequence[Config] | None = field(array(Config), since=5, default=None)

    throttle_time_ms: int = field(INT32, default=0)
    topics: Sequence[Topic] = field(array(Topic))


API = Api(key=19, versions=range(2, 8), flexible_from=5, request=Request, response=Response)

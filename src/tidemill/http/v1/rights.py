"""What a route does to which resources, in the terms of Kafka's access control lists; authorization will check it."""

from enum import StrEnum
from typing import Final, NamedTuple


class Operation(StrEnum):
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    DESCRIBE_CONFIGS = "describe configs"
    ALTER_CONFIGS = "alter configs"


class Resource(StrEnum):
    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


class Right(NamedTuple):
    operation: Operation
    resource: Resource


def _of(resource: Resource, *operations: Operation) -> tuple[Right, ...]:
    return tuple(Right(operation, resource) for operation in operations)


CREATE_TOPIC: Final = _of(Resource.TOPIC, Operation.CREATE)
DESCRIBE_TOPIC: Final = _of(Resource.TOPIC, Operation.DESCRIBE)
DESCRIBE_TOPIC_CONFIGS: Final = _of(Resource.TOPIC, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
ALTER_TOPIC: Final = _of(Resource.TOPIC, Operation.ALTER, Operation.ALTER_CONFIGS)
DELETE_TOPIC: Final = _of(Resource.TOPIC, Operation.DELETE)
READ_TOPIC: Final = _of(Resource.TOPIC, Operation.READ)
WRITE_TOPIC: Final = _of(Resource.TOPIC, Operation.WRITE)
DESCRIBE_GROUP: Final = _of(Resource.GROUP, Operation.DESCRIBE)
DESCRIBE_GROUP_CONFIGS: Final = _of(Resource.GROUP, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
ALTER_GROUP: Final = _of(Resource.GROUP, Operation.ALTER_CONFIGS)
DELETE_GROUP: Final = _of(Resource.GROUP, Operation.DELETE)
DESCRIBE_CLUSTER: Final = _of(Resource.CLUSTER, Operation.DESCRIBE)
ALTER_CLUSTER: Final = _of(Resource.CLUSTER, Operation.ALTER)
READ_GROUP: Final = _of(Resource.GROUP, Operation.READ)
CONSUME: Final = READ_GROUP + READ_TOPIC
DESCRIBE_OFFSETS: Final = DESCRIBE_GROUP + DESCRIBE_TOPIC

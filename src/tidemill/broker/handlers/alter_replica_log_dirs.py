"""
AlterReplicaLogDirs (key 34): v1-2

Accepts that a replica is in this broker's only directory, which changes nothing, and refuses every other directory.
Kafka's command that moves replicas between brokers prints the directory of each replica in its plan for the way back,
and asks each broker for it when that plan is executed.

A replica that is planned elsewhere, or is not open here yet, is answered REPLICA_NOT_AVAILABLE; the command then asks
again.

v2  flexible
"""

from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.wire.messages.alter_replica_log_dirs import Request, Response

PartitionResponse = Response.Topic.Partition


def handle(request: Request, context: RequestContext) -> Response:
    results: dict[str, list[PartitionResponse]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            results.setdefault(topic.name, []).extend(
                PartitionResponse(
                    partition_index=number, error_code=_error_code(context, directory.path, topic.name, number)
                )
                for number in topic.partitions
            )
    return Response(
        results=[Response.Topic(topic_name=name, partitions=partitions) for name, partitions in results.items()]
    )


def _error_code(context: RequestContext, path: str, name: str, number: int) -> int:
    broker = context.broker
    if path != broker.store.disk.root:
        return errors.LOG_DIR_NOT_FOUND
    if broker.shard_table.partition(name, number) is not None:
        return errors.NONE
    topic = broker.image.topic(name)
    is_known = topic is not None and topic.shard_of(number) is not None
    return errors.REPLICA_NOT_AVAILABLE if is_known else errors.UNKNOWN_TOPIC_OR_PARTITION

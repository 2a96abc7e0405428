"""
DescribeLogDirs (key 35): v1-5

Describes this broker's only data directory: the disk that holds it, and the size of each replica on this broker.  The
size of a partition is the size of its segments, including bytes that are still only in the journal.  Partitions without
a replica on this broker are left out, as in Kafka.

v2  flexible
v3  error_code
v4  total_bytes, usable_bytes (KIP-827)
v5  is_cordoned (KIP-1066): always false, because directories cannot be cordoned

The offset lag is 0 and is_future_key is false, because replicas do not move between directories.  The metadata topic is
described only when the request names it, as in Metadata.
"""

from collections.abc import Iterable, Iterator

from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.shard.partition import Partition
from tidemill.wire.messages.describe_log_dirs import Request, Response

Result = Response.Result
TopicResponse = Result.Topic
PartitionResponse = TopicResponse.Partition


def handle(request: Request, context: RequestContext) -> Response:
    disk = context.broker.store.disk
    try:
        total_bytes, usable_bytes = disk.total_space(), disk.free_space()
    except OSError:
        return Response(results=[Result(error_code=errors.KAFKA_STORAGE_ERROR, log_dir=disk.root, topics=())])
    result = Result(
        error_code=errors.NONE,
        log_dir=disk.root,
        topics=[_topic(name, partitions) for name, partitions in _wanted(request, context)],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return Response(results=[result])


def _wanted(request: Request, context: RequestContext) -> Iterator[tuple[str, Iterable[Partition]]]:
    """Yield each topic of which this broker has at least one requested partition, together with those partitions."""
    table = context.broker.shard_table.topics
    if request.topics is None:
        yield from ((name, table[name].values()) for name in sorted(table) if name != METADATA_TOPIC and table[name])
        return
    asked: dict[str, set[int]] = {}
    for topic in request.topics:
        asked.setdefault(topic.topic, set()).update(topic.partitions)
    for name, numbers in asked.items():
        here = table.get(name, {})
        found = [here[number] for number in sorted(numbers) if number in here]
        if found:
            yield name, found


def _topic(name: str, partitions: Iterable[Partition]) -> TopicResponse:
    return TopicResponse(
        name=name,
        partitions=[
            PartitionResponse(
                partition_index=partition.number,
                partition_size=sum(log.size_bytes for log in partition.logs),
                offset_lag=0,
                is_future_key=False,
            )
            for partition in partitions
        ],
    )

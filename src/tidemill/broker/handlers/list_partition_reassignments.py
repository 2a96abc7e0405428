"""
ListPartitionReassignments (key 46): v0

Returns the partitions whose replicas are on their way to other brokers, by a user's plan or by the cluster's own.
Every broker forwards the request to the controller, to which the leaders report the voters in force.
"""

from collections.abc import Iterable
from typing import Final

from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.metadata.image import Topic
from tidemill.metadata.partition_reassignments import reassigning
from tidemill.model import errors
from tidemill.wire.messages.list_partition_reassignments import Request, Response

SINCE_LEVEL: Final = ELASTIC_CLUSTER


def handle(request: Request, context: RequestContext) -> Response:
    image = context.broker.image
    asked: Iterable[tuple[Topic | None, frozenset[int] | None]]
    if request.topics is None:
        asked = ((topic, None) for topic in image.topics.values())
    else:
        asked = ((image.topic(it.name), frozenset(it.partition_indexes)) for it in request.topics)
    found = ((topic, _under_way(topic, numbers, context)) for topic, numbers in asked if topic is not None)
    return Response(
        error_code=errors.NONE,
        topics=[Response.Topic(name=topic.name, partitions=partitions) for topic, partitions in found if partitions],
    )


def _under_way(topic: Topic, numbers: frozenset[int] | None, context: RequestContext) -> list[Response.Topic.Partition]:
    """Return the partitions that are on their way, of those that are asked for; None means all."""
    broker = context.broker
    partitions = []
    for shard_id in topic.shard_ids:
        shard = broker.image.shards[shard_id]
        move = reassigning(shard, broker.reported_load.voters(shard_id))
        if move is not None:
            partitions += [
                Response.Topic.Partition(
                    partition_index=number,
                    replicas=move.replicas,
                    adding_replicas=move.adding,
                    removing_replicas=move.removing,
                )
                for number in shard.partitions
                if numbers is None or number in numbers
            ]
    return partitions


def refused(_: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    is_older = error_code == errors.UNSUPPORTED_VERSION
    why = "the controller runs a version of Tidemill that moves no replicas: upgrade all brokers first"
    return Response(error_code=error_code, error_message=why if is_older else None, topics=[])

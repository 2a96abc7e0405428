"""
ListPartitionReassignments (key 46): v0

Returns the partitions whose replicas are on their way to other brokers, by a user's plan or by the cluster's own.
Every broker forwards the request to the controller, to which the leaders report the voters in force.  A new controller
waits for their first reports (`broker/request/told_voters`).
"""

from typing import Final

from tidemill.broker.broker import Broker
from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.request.told_voters import when_told
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.metadata.partition_reassignments import reassigning
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.list_partition_reassignments import Request, Response

SINCE_LEVEL: Final = ELASTIC_CLUSTER


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    broker, asked = context.broker, _asked(request, context.broker.image)
    pending: Pending[Response] = Pending()

    def told() -> None:
        is_elsewhere = not broker.controller.leads
        pending.complete(refused(request, errors.NOT_CONTROLLER) if is_elsewhere else _response(asked, broker))

    when_told(broker, (shard_id for topic, _ in asked for shard_id in topic.shard_ids), told)
    return pending


def _asked(request: Request, image: ClusterImage) -> list[tuple[Topic, frozenset[int] | None]]:
    """Return the topics that a request is about, each with the numbers of its partitions; None means all."""
    if request.topics is None:
        return [(topic, None) for topic in image.topics.values()]
    named = ((image.topic(it.name), frozenset(it.partition_indexes)) for it in request.topics)
    return [(topic, numbers) for topic, numbers in named if topic is not None]


def _response(asked: list[tuple[Topic, frozenset[int] | None]], broker: Broker) -> Response:
    found = ((topic, _under_way(topic, numbers, broker)) for topic, numbers in asked)
    return Response(
        error_code=errors.NONE,
        topics=[Response.Topic(name=topic.name, partitions=partitions) for topic, partitions in found if partitions],
    )


def _under_way(topic: Topic, numbers: frozenset[int] | None, broker: Broker) -> list[Response.Topic.Partition]:
    """Return the partitions that are on their way, of those that are asked for; None means all."""
    partitions = []
    for shard_id in topic.shard_ids:
        shard = broker.image.shards.get(shard_id)  # the topic may have been deleted meanwhile
        move = None if shard is None else reassigning(shard, broker.reported_load.voters(shard_id))
        if shard is not None and move is not None:
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

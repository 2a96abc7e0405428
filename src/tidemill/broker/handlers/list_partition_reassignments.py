"""
ListPartitionReassignments (key 46): v0

Returns the partitions whose replicas are on their way to other brokers, by a user's plan or by the cluster's own.
Every broker forwards the request to the controller, to which the leaders report the voters in force.  A new controller
waits for their first reports, for REPORTS_MS at most.
"""

from typing import Final

from tidemill.broker.broker import Broker
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.metadata.partition_reassignments import reassigning
from tidemill.model import errors
from tidemill.model.shard import ShardId
from tidemill.shard.pending import Pending
from tidemill.wire.messages.list_partition_reassignments import Request, Response

SINCE_LEVEL: Final = ELASTIC_CLUSTER
REPORTS_MS: Final = 3_000  # leaders report to a new controller within a second; clients wait for much longer
POLL_S: Final = 0.1


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    broker, asked = context.broker, _asked(request, context.broker.image)
    until_ms = broker.clock.monotonic_ms() + REPORTS_MS
    pending: Pending[Response] = Pending()

    def resume(untold: list[ShardId]) -> None:
        untold = [it for it in untold if _is_awaited(it, broker)]
        if not broker.controller.leads:
            pending.complete(refused(request, errors.NOT_CONTROLLER))
        elif untold and broker.clock.monotonic_ms() < until_ms:
            broker.machine.call_later(POLL_S, lambda: resume(untold))
        else:
            pending.complete(_response(asked, broker))

    untold = [shard_id for topic, _ in asked for shard_id in topic.shard_ids if _is_awaited(shard_id, broker)]
    if not untold:
        return _response(asked, broker)
    resume(untold)
    return pending


def _asked(request: Request, image: ClusterImage) -> list[tuple[Topic, frozenset[int] | None]]:
    """Return the topics that a request is about, each with the numbers of its partitions; None means all."""
    if request.topics is None:
        return [(topic, None) for topic in image.topics.values()]
    named = ((image.topic(it.name), frozenset(it.partition_indexes)) for it in request.topics)
    return [(topic, numbers) for topic, numbers in named if topic is not None]


def _is_awaited(shard_id: ShardId, broker: Broker) -> bool:
    """
    Return whether a shard's leader has not told the voters yet, and will: a new controller would take a move that has
    ended for one that is under way.
    """
    shard = broker.image.shards.get(shard_id)
    if shard is None or broker.reported_load.voters(shard_id) is not None:
        return False
    return reassigning(shard, None) is not None and broker.cluster.leaders.leader(shard_id) is not None


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

"""
CreatePartitions (key 37): v0-3

Adds partitions to topics.  Each topic may be refused independently of the others.  The response is sent when the new
partitions have leaders.  New partitions form new shards, so no existing partition moves.
"""

from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.partitions import CreatePartitions, GrownTopic, MorePartitions
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.wire.messages.create_partitions import Request, Response

TopicResponse = Response.Topic


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    broker = context.broker
    pending: Pending[Response] = Pending()
    command = CreatePartitions(
        topics=tuple(_wanted(topic) for topic in request.topics), validate_only=request.validate_only
    )

    def decided(grown: tuple[GrownTopic, ...] | OutcomeUnknown) -> None:
        if grown is OUTCOME_UNKNOWN:
            pending.complete(refused(request, errors.REQUEST_TIMED_OUT))
            return
        names = [topic.name for topic in grown if topic.problem is None]
        broker.cluster.when_led(names, lambda: pending.complete(Response(results=[_answer(topic) for topic in grown])))

    broker.controller.submit(command).then(decided)
    return pending


def _wanted(topic: Request.Topic) -> MorePartitions:
    assignments = topic.assignments
    return MorePartitions(
        name=topic.name,
        partition_count=topic.count,
        assignments=None
        if assignments is None
        else tuple(tuple(BrokerId(broker_id) for broker_id in assigned.broker_ids) for assigned in assignments),
    )


def _answer(topic: GrownTopic) -> TopicResponse:
    if topic.problem is None:
        return TopicResponse(name=topic.name, error_code=errors.NONE)
    return TopicResponse(name=topic.name, error_code=topic.problem.error_code, error_message=topic.problem.message)


def refused(request: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    return Response(results=[TopicResponse(name=topic.name, error_code=error_code) for topic in request.topics])

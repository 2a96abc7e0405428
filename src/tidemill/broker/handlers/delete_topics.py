"""
DeleteTopics (key 20): v1-6

Deletes topics by name or, since v6, by id.  The response is sent when the deletion has committed; the files are removed
afterwards.

v5  error_message (KIP-599)
v6  topics by id (KIP-516)
"""

from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.topics import DeletedTopic, DeleteTopics
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.wire.messages.delete_topics import Request, Response

TopicResponse = Response.Topic


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    controller = context.broker.controller
    wanted = _wanted(request)
    ambiguous = [_ambiguous(name, topic_id) for name, topic_id in wanted if (name is None) == (topic_id == NO_TOPIC_ID)]
    topics = [
        topic_id if name is None else name for name, topic_id in wanted if (name is None) != (topic_id == NO_TOPIC_ID)
    ]
    pending: Pending[Response] = Pending()

    def decided(deleted: tuple[DeletedTopic, ...] | OutcomeUnknown) -> None:
        if deleted is OUTCOME_UNKNOWN:
            pending.complete(refused(request, errors.REQUEST_TIMED_OUT))
        else:
            pending.complete(Response(responses=[*map(_answer, deleted), *ambiguous]))

    controller.submit(DeleteTopics(topics=tuple(topics))).then(decided)
    return pending


def _answer(topic: DeletedTopic) -> TopicResponse:
    problem = topic.problem
    return TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id or NO_TOPIC_ID,
        error_code=errors.NONE if problem is None else problem.error_code,
        error_message=None if problem is None else problem.message,
    )


def _ambiguous(name: str | None, topic_id: TopicId) -> TopicResponse:
    given = "neither" if name is None else "both"
    return TopicResponse(
        name=name,
        topic_id=topic_id,
        error_code=errors.INVALID_REQUEST,
        error_message=f"a topic needs either a name or an id; the request has {given}",
    )


def refused(request: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    return Response(
        responses=[
            TopicResponse(name=name, topic_id=topic_id, error_code=error_code) for name, topic_id in _wanted(request)
        ]
    )


def _wanted(request: Request) -> list[tuple[str | None, TopicId]]:
    wanted = [(topic.name, topic.topic_id) for topic in request.topics]
    return wanted + [(name, NO_TOPIC_ID) for name in request.topic_names]

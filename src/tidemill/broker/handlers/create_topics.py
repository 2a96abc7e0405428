"""
CreateTopics (key 19): v2-7

Creates topics.  Each topic may be refused independently of the others.  The response is sent when the partitions of all
created topics have leaders, so that the client can produce immediately.

v4  a partition count or replication factor of -1 means the broker's default (KIP-464)
v5  the response includes both counts and the topic's configuration (KIP-525)
v7  topic ids

timeout_ms is ignored, because the wait is bounded anyway: a controller that loses contact with a majority steps down
after two seconds and then answers, and the request waits at most five seconds for leaders.
"""

from typing import Final

from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.describe_configs import topic_settings
from tidemill.metadata.topics import CreatedTopic, CreateTopics, NewTopic
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.topic import NO_TOPIC_ID
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.wire.messages.create_topics import Request, Response

TOPICS_MAX: Final = 2_000  # topics in one request; bounds how long the request blocks the event loop

TopicResponse = Response.Topic


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    broker = context.broker
    if len(request.topics) > TOPICS_MAX:
        return refused(request, errors.POLICY_VIOLATION)
    pending: Pending[Response] = Pending()
    command = CreateTopics(
        topics=tuple(_wanted(topic) for topic in request.topics), validate_only=request.validate_only
    )

    def decided(created: tuple[CreatedTopic, ...] | OutcomeUnknown) -> None:
        if created is OUTCOME_UNKNOWN:
            pending.complete(refused(request, errors.REQUEST_TIMED_OUT))
            return
        layers = broker.layers
        answers = [_answer(topic, layers, is_made=not request.validate_only) for topic in created]
        made = [] if request.validate_only else [topic.name for topic in created if topic.problem is None]
        broker.cluster.when_led(made, lambda: pending.complete(Response(topics=answers)))

    broker.controller.submit(command).then(decided)
    return pending


def _wanted(topic: Request.Topic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            (assignment.partition_index, tuple(BrokerId(broker_id) for broker_id in assignment.broker_ids))
            for assignment in topic.assignments
        ),
        settings=tuple((config.name, config.value) for config in topic.configs),
    )


def _answer(topic: CreatedTopic, layers: BrokerLayers, *, is_made: bool) -> TopicResponse:
    if topic.problem is not None:
        return TopicResponse(
            name=topic.name, error_code=topic.problem.error_code, error_message=topic.problem.message, configs=()
        )
    configs = [
        TopicResponse.Config(
            name=resolved.key.name,
            value=resolved.value,
            read_only=False,
            config_source=resolved.source,
            is_sensitive=resolved.key.is_sensitive,
        )
        for resolved in topic_settings(topic.settings, layers)
    ]
    return TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id if is_made else NO_TOPIC_ID,
        error_code=errors.NONE,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        configs=configs,
    )


def refused(request: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    return Response(
        topics=[TopicResponse(name=topic.name, error_code=error_code, configs=()) for topic in request.topics]
    )

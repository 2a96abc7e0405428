"""
AlterShareGroupOffsets (key 91): v0

Sets the start offsets of a share group without members (KIP-932), and creates a missing group.  The coordinator checks
the group; then the leaders of the partitions begin the group's shares anew.  The response is sent when the new starts
are committed, or with an error after RETRY_MS_MAX without a leader (`share_leaders`).

An offset below the log start becomes the log start.  As in Kafka, an offset beyond the end is accepted: the records
before it are not delivered.  Unlike in Kafka, negative offsets are refused.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.shares.share_leaders import PartitionKey
from tidemill.coordinator.share_group.requests import AlterShareOffsets
from tidemill.coordinator.share_group.responses import AlteredTopic, ShareOffsetsAltered
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID
from tidemill.peer import share_reset
from tidemill.shard.pending import Pending
from tidemill.wire.messages.alter_share_group_offsets import Request, Response

Partition = Response.Topic.Partition


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    pending: Pending[Response] = Pending()
    names = tuple(dict.fromkeys(topic.topic_name for topic in request.topics))

    def altered(reply: ShareOffsetsAltered) -> None:
        if reply.error_code:
            code, message = reply.error_code, reply.error_message
            pending.complete(Response(error_code=code, error_message=message, responses=()))
            return
        alteration = _Alteration(request, dict(zip(names, reply.topics, strict=True)))
        context.broker.shares.leaders.ask_patiently(
            share_reset.API,
            alteration.asked,
            alteration.request,
            context.broker.shares.resets.reset,
            lambda response: response.outcomes,
        ).then(lambda outcomes: pending.complete(alteration.response(outcomes)))

    ask_group(
        context.broker.coordinators,
        request.group_id,
        AlterShareOffsets(waiter=altered, group_id=request.group_id, topics=names),
    )
    return pending


class _Alteration:
    """The partitions to alter, and the response, which is complete when their leaders have answered."""

    def __init__(self, request: Request, topics: dict[str, AlteredTopic | None]) -> None:
        self._group = request.group_id
        self.asked: dict[PartitionKey, share_reset.Request.Partition] = {}
        self._answers: dict[PartitionKey, list[Partition]] = {}
        self._response = Response(
            error_code=errors.NONE, responses=[self._topic(it, topics[it.topic_name]) for it in request.topics]
        )

    def request(self, partitions: Sequence[PartitionKey]) -> share_reset.Request:
        return share_reset.Request(group_id=self._group, partitions=[self.asked[key] for key in partitions])

    def response(self, outcomes: Mapping[PartitionKey, share_reset.Response.Outcome]) -> Response:
        for key, answers in self._answers.items():
            outcome = outcomes.get(key, _NO_LEADER)
            for answer in answers:
                answer.error_code, answer.error_message = outcome.error_code, outcome.error_message
        return self._response

    def _topic(self, asked: Request.Topic, topic: AlteredTopic | None) -> Response.Topic:
        return Response.Topic(
            topic_name=asked.topic_name,
            topic_id=NO_TOPIC_ID if topic is None else topic.topic_id,
            partitions=[self._partition(asked.topic_name, it, topic) for it in asked.partitions],
        )

    def _partition(self, name: str, asked: Request.Topic.Partition, topic: AlteredTopic | None) -> Partition:
        number = asked.partition_index
        answer = Partition(partition_index=number, error_code=errors.NONE)
        if topic is None or not 0 <= number < topic.partition_count:
            answer.error_code = errors.UNKNOWN_TOPIC_OR_PARTITION
            answer.error_message = f"There is no partition {number} of topic {name}."
        elif asked.start_offset < 0:
            answer.error_code = errors.INVALID_REQUEST
            answer.error_message = f"The start offset {asked.start_offset} is negative."
        else:
            key = topic.topic_id, number
            self._answers.setdefault(key, []).append(answer)
            self.asked[key] = share_reset.Request.Partition(
                topic_id=topic.topic_id,
                partition=number,
                incarnation=topic.incarnation,
                start=asked.start_offset,
            )
        return answer


_NO_LEADER: Final = share_reset.Response.Outcome(
    error_code=errors.LEADER_NOT_AVAILABLE,
    error_message="the leader of the partition could not be reached: whether its offset was set is unknown",
)

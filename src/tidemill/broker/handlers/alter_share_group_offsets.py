"""
AlterShareGroupOffsets (key 91): v0

Sets the start offsets of a share group without members (KIP-932), and creates a missing group.  The coordinator checks
the group; then the leaders of the partitions begin the group's shares anew.  The response is sent when the new starts
are committed, or RETRY_MS_MAX after a leader could not be found.

An offset below the log start becomes the log start.  As in Kafka, an offset beyond the end is accepted: the records
before it are not delivered.  Unlike in Kafka, negative offsets are refused.
"""

from collections.abc import Sequence
from typing import Final

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.shares.share_leaders import Outcome, PartitionKey
from tidemill.coordinator.share_group.requests import AlterShareOffsets
from tidemill.coordinator.share_group.responses import AlteredTopic, ShareOffsetsAltered
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID
from tidemill.peer import share_reset
from tidemill.shard.pending import Pending
from tidemill.wire.messages.alter_share_group_offsets import Request, Response

RETRY_MS_MAX: Final = 3_000  # for how long leaders that move are asked again; longer than most elections
PAUSE_S: Final = 0.1

Partition = Response.Topic.Partition
_LEADER_MOVED: Final = frozenset({errors.NOT_LEADER_OR_FOLLOWER, errors.LEADER_NOT_AVAILABLE})


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    pending: Pending[Response] = Pending()
    names = tuple(dict.fromkeys(topic.topic_name for topic in request.topics))

    def altered(reply: ShareOffsetsAltered) -> None:
        if reply.error_code:
            code, message = reply.error_code, reply.error_message
            pending.complete(Response(error_code=code, error_message=message, responses=()))
        else:
            _Alteration(request, dict(zip(names, reply.topics, strict=True)), context, pending).ask()

    ask_group(
        context.broker.coordinators,
        request.group_id,
        AlterShareOffsets(waiter=altered, group_id=request.group_id, topics=names),
    )
    return pending


class _Alteration:
    """Asks the leaders of the partitions until all have answered, or the time is over."""

    def __init__(
        self,
        request: Request,
        topics: dict[str, AlteredTopic | None],
        context: RequestContext,
        pending: Pending[Response],
    ) -> None:
        self._group = request.group_id
        self._context = context
        self._pending = pending
        self._clock = context.broker.machine.clock
        self._until = self._clock.monotonic_ms() + RETRY_MS_MAX
        self._asked: dict[PartitionKey, share_reset.Request.Partition] = {}  # without a final answer
        self._answers: dict[PartitionKey, list[Partition]] = {}
        self._response = Response(
            error_code=errors.NONE, responses=[self._topic(it, topics[it.topic_name]) for it in request.topics]
        )

    def ask(self) -> None:
        shares = self._context.broker.shares
        shares.leaders.ask(share_reset.API, list(self._asked), self._request, shares.resets.reset).then(self._answered)

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
            self._asked[key] = share_reset.Request.Partition(
                topic_id=topic.topic_id,
                partition=number,
                incarnation=topic.incarnation,
                start=asked.start_offset,
            )
        return answer

    def _request(self, partitions: Sequence[PartitionKey]) -> share_reset.Request:
        return share_reset.Request(group_id=self._group, partitions=[self._asked[key] for key in partitions])

    def _answered(self, outcomes: Sequence[Outcome]) -> None:
        is_over = self._clock.monotonic_ms() >= self._until
        for partitions, response in outcomes:
            found = [_NO_LEADER] * len(partitions) if response is None else response.outcomes
            for key, outcome in zip(partitions, found, strict=True):
                if outcome.error_code in _LEADER_MOVED and not is_over:
                    continue
                del self._asked[key]
                for answer in self._answers[key]:
                    answer.error_code, answer.error_message = outcome.error_code, outcome.error_message
        if self._asked:
            self._context.broker.machine.call_later(PAUSE_S, self.ask)
        else:
            self._pending.complete(self._response)


_NO_LEADER: Final = share_reset.Response.Outcome(
    error_code=errors.LEADER_NOT_AVAILABLE,
    error_message="the leader of the partition could not be reached: whether its offset was set is unknown",
)

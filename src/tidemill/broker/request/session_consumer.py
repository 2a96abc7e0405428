"""A member of a share group whose ShareFetch belongs to a share session."""

from collections.abc import Callable, Sequence
from typing import Final

from tidemill.broker.request.delayed_share_fetch import Failures, Fetched
from tidemill.broker.request.leader_hints import WRONG_LEADER, add_leader_hints
from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.request.share_acknowledgements import ShareAcknowledgements
from tidemill.broker.shares.led_share import LedShare, ShareKey
from tidemill.broker.shares.share_reads import ReadRange, ranges_to_read
from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.shard.partition import Partition
from tidemill.share.acquisition import BatchesRead, FetchLimits, ShareFetched
from tidemill.share.share_session import ShareSession
from tidemill.wire.messages.share_fetch import Response

PartitionResponse = Response.Topic.Partition
NOT_SAID: Final = PartitionResponse.CurrentLeader(leader_id=-1, leader_epoch=-1)


class SessionConsumer:
    """Implements `delayed_share_fetch.ShareConsumer`."""

    def __init__(self, context: RequestContext, session: ShareSession, acknowledgements: ShareAcknowledgements) -> None:
        self._context = context
        self._host = context.broker.shares
        self._session = session
        self._acknowledgements = acknowledgements

    @property
    def member(self) -> str:
        return self._session.member

    @property
    def is_open(self) -> bool:
        return self._session.is_open

    def when_ready(self, ready: Callable[[], None]) -> None:
        self._acknowledgements.then(lambda _: ready())

    def share(self, key: ShareKey, partition: Partition) -> LedShare | None:
        return self._host.share(key, partition)

    def wanted(self, led: LedShare, records_max: int, bytes_max: int, wall: int) -> Sequence[ReadRange]:
        return ranges_to_read(led, self.member, records_max, bytes_max, wall)

    def wanted_bytes(self, led: LedShare, read: BatchesRead, enough: int, wall: int) -> int:
        return read.available_bytes(led.leases, wall, enough)

    def acquire(self, led: LedShare, read: BatchesRead, limits: FetchLimits) -> ShareFetched:
        found = read.acquire(led.leases, self.member, limits, now=self._host.lock_now, wall=self._host.wall_ms)
        led.count_acquired(found.acquired)
        return found

    def response(self, fetched: Fetched, failures: Failures) -> Response:
        return share_fetch_response(self._context, self._session, self._acknowledgements, fetched, failures)


def share_fetch_response(
    context: RequestContext,
    session: ShareSession,
    acknowledgements: ShareAcknowledgements,
    fetched: Fetched,
    failures: Failures,
) -> Response:
    """Return the response: the partitions with records, with an error, or with acknowledgements."""
    broker = context.broker
    answers: dict[ShareKey, PartitionResponse] = {}
    for key in dict.fromkeys((*fetched, *failures, *acknowledgements.outcomes)):
        answers[key] = PartitionResponse(
            partition_index=key.partition,
            error_code=errors.NONE,
            acknowledge_error_code=errors.NONE,
            current_leader=NOT_SAID,
            records=[],
            acquired_records=(),
        )
    for key, (_, found) in fetched.items():
        answer = answers[key]
        answer.records = found.records
        answer.acquired_records = [
            PartitionResponse.AcquiredRecords(first_offset=first, last_offset=end - 1, delivery_count=count)
            for first, end, count in found.acquired
        ]
    for key, problem in failures.items():
        answers[key].error_code, answers[key].error_message = problem.error_code, problem.message
    for key, (code, message) in acknowledgements.outcomes.items():
        answers[key].acknowledge_error_code, answers[key].acknowledge_error_message = code, message
    topics: dict[TopicId, list[PartitionResponse]] = {}
    for key, answer in answers.items():
        topics.setdefault(key.topic_id, []).append(answer)
    misdirected = []
    for key, answer in answers.items():
        if not WRONG_LEADER.isdisjoint((answer.error_code, answer.acknowledge_error_code)):
            topic = broker.image.topic_by_id(key.topic_id)
            misdirected.append((None if topic is None else topic.name, key.partition, answer))
    return Response(
        error_code=errors.NONE,
        acquisition_lock_timeout_ms=broker.shares.configs.of(session.group).lock_ms,
        responses=[Response.Topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
        node_endpoints=add_leader_hints(context, Response, misdirected) if misdirected else [],
    )

"""
OffsetFetch (key 9): v1-10

Returns the committed offsets of groups.  A partition that has no committed offset gets −1 and no error.  Offsets of a
deleted topic are not returned for a new topic with the same name.

v2  topics=null returns every committed offset; the response has an error_code (before v2, only partitions have one)
v5  committed_leader_epoch
v7  require_stable: ignored, because there are no transactions that make offsets unstable
v8  many groups (KIP-709)
v9  member_id and member_epoch: ignored for classic groups
v10 topics by id; UNKNOWN_TOPIC_ID is a possible error

If a group's coordinator is on another broker or unavailable, the group gets the corresponding error.  Before v9, each
requested partition gets the same error.  From v9 on, the partitions get STALE_MEMBER_EPOCH, because it is the only
error after which librdkafka (2.4 to 2.16, its issue 5586) requests a partition again.  After any other error, or if the
partition is missing from the response (as in Kafka's), librdkafka never requests the partition's offset again and never
reads the partition.  After STALE_MEMBER_EPOCH, librdkafka retries without a pause, so the broker delays this response.
Kafka's own client checks only the group's error.

COORDINATOR_NOT_AVAILABLE becomes NOT_COORDINATOR, after which clients look for the coordinator, too: aiokafka (0.14)
gives up after the former.
"""

from collections.abc import Sequence
from typing import Final

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import FetchOffsets, TopicPartitionId
from tidemill.coordinator.group.responses import FetchedOffset, OffsetsFetched
from tidemill.metadata.image import ClusterImage
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.shard.pending import Pending
from tidemill.wire.messages.offset_fetch import Request, Response

Group = Response.Group
Topic = Response.Group.Topic
Partition = Response.Group.Topic.Partition
NOTHING: Final = -1
REFUSED_AFTER_S: Final = 0.1  # delay of a response with STALE_MEMBER_EPOCH, because librdkafka retries without a pause


class _Asked:
    """One group of the request, with the responses for its partitions in request order."""

    def __init__(self, group_id: str, topics: Sequence[Request.Group.Topic] | None, *, by_id: bool) -> None:
        self.group_id = group_id
        self.by_id = by_id
        self.wants_all = topics is None
        self.topics: list[Topic] = []
        self.partitions: list[TopicPartitionId] = []
        self.answers: list[Partition] = []  # the responses for `partitions`, in the same order
        self._wanted = topics or ()

    def resolve(self, image: ClusterImage) -> None:
        for wanted in self._wanted:
            topic = image.topic_by_id(wanted.topic_id) if self.by_id else image.topic(wanted.name)
            answers = []
            for number in wanted.partition_indexes:
                answer = Partition(
                    partition_index=number, committed_offset=NOTHING, metadata="", error_code=errors.NONE
                )
                answers.append(answer)
                if topic is None and self.by_id:
                    answer.error_code = errors.UNKNOWN_TOPIC_ID
                    continue
                topic_id = NO_TOPIC_ID if topic is None else topic.topic_id
                name = wanted.name if topic is None else topic.name
                self.answers.append(answer)
                self.partitions.append(TopicPartitionId(topic=name, topic_id=topic_id, partition=number))
            self.topics.append(Topic(name=wanted.name, topic_id=wanted.topic_id, partitions=answers))

    def refused(self, error_code: int, of_partitions: int) -> Group:
        for answer in self.answers:
            answer.error_code = of_partitions
        return Group(group_id=self.group_id, topics=self.topics, error_code=error_code)

    def answered(self, reply: OffsetsFetched, image: ClusterImage) -> Group:
        if self.wants_all:
            return Group(group_id=self.group_id, topics=_all(reply.offsets, image, by_id=self.by_id))
        for answer, fetched in zip(self.answers, reply.offsets, strict=True):
            answer.committed_offset = fetched.offset
            answer.committed_leader_epoch = fetched.leader_epoch
            answer.metadata = fetched.metadata
        return Group(group_id=self.group_id, topics=self.topics)


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    asked = _asked(request, context.version)
    if not asked:
        return Response(groups=())
    pending: Pending[Response] = Pending()
    broker = context.broker
    groups: list[Group | None] = [None] * len(asked)

    def refused(at: int, error_code: int) -> None:
        if context.version < 9 or not asked[at].partitions or error_code not in errors.RETRIABLE:
            found(at, asked[at].refused(error_code, error_code))
            return
        group = asked[at].refused(error_code, errors.STALE_MEMBER_EPOCH)
        broker.machine.call_later(REFUSED_AFTER_S, lambda: found(at, group))

    def answered(at: int, reply: OffsetsFetched) -> None:
        if reply.error_code:
            is_away = reply.error_code == errors.COORDINATOR_NOT_AVAILABLE
            refused(at, errors.NOT_COORDINATOR if is_away else reply.error_code)
        else:
            found(at, asked[at].answered(reply, broker.image))

    def found(at: int, group: Group) -> None:
        groups[at] = group
        if None not in groups:
            all_found = [group for group in groups if group is not None]
            pending.complete(Response(groups=all_found) if context.version >= 8 else _of_one(all_found[0]))

    for at, it in enumerate(asked):
        it.resolve(broker.image)
        ask_group(
            context.broker.coordinators,
            it.group_id,
            FetchOffsets(
                waiter=lambda reply, at=at: answered(at, reply),
                group_id=it.group_id,
                partitions=None if it.wants_all else tuple(it.partitions),
            ),
        )
    return pending


def _asked(request: Request, version: int) -> list[_Asked]:
    if version >= 8:
        return [_Asked(group.group_id, group.topics, by_id=version >= 10) for group in request.groups]
    topics = None
    if request.topics is not None:
        topics = [Request.Group.Topic(name=it.name, partition_indexes=it.partition_indexes) for it in request.topics]
    return [_Asked(request.group_id, topics, by_id=False)]


def _all(offsets: Sequence[FetchedOffset], image: ClusterImage, *, by_id: bool) -> list[Topic]:
    topics: dict[tuple[str, TopicId], list[Partition]] = {}
    for fetched in offsets:
        now = image.topic(fetched.topic)
        is_another = now is not None and fetched.topic_id not in (NO_TOPIC_ID, now.topic_id)
        if is_another or (by_id and now is None):
            continue
        topic_id = NO_TOPIC_ID if now is None else now.topic_id
        topics.setdefault((fetched.topic, topic_id), []).append(
            Partition(
                partition_index=fetched.partition,
                committed_offset=fetched.offset,
                committed_leader_epoch=fetched.leader_epoch,
                metadata=fetched.metadata,
                error_code=errors.NONE,
            )
        )
    return [Topic(name=name, topic_id=topic_id, partitions=found) for (name, topic_id), found in topics.items()]


def _of_one(group: Group) -> Response:
    """Return the response for versions before v8, in which a request names only one group."""
    return Response(
        error_code=group.error_code,
        topics=[
            Response.Topic(
                name=topic.name,
                partitions=[
                    Response.Topic.Partition(
                        partition_index=it.partition_index,
                        committed_offset=it.committed_offset,
                        committed_leader_epoch=it.committed_leader_epoch,
                        metadata=it.metadata,
                        error_code=it.error_code,
                    )
                    for it in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )

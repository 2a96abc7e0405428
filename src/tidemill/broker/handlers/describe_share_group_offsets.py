"""
DescribeShareGroupOffsets (key 90): v0-1

Returns how far share groups have read partitions (KIP-932).  The coordinator asks the leader of each partition, and
the next one if it moves.  A partition that a group has not read has the start offset -1 and no error.

v1  lag: offsets that are not finished (KIP-1226)
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.shares.share_descriptions import ShareDescriptions
from tidemill.broker.shares.share_leaders import PartitionKey
from tidemill.coordinator.share_group.requests import ReadShareTopics
from tidemill.coordinator.share_group.responses import ShareTopicsRead
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.peer import share_describe
from tidemill.shard.pending import Pending
from tidemill.wire.messages.describe_share_group_offsets import Request, Response

Group = Response.Group
Partition = Response.Group.Topic.Partition


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    if not request.groups:
        return Response(groups=())
    pending: Pending[Response] = Pending()
    groups: list[Group | None] = [None] * len(request.groups)

    def described(at: int, group: Group) -> None:
        groups[at] = group
        if None not in groups:
            pending.complete(Response(groups=[it for it in groups if it is not None]))

    for at, asked in enumerate(request.groups):
        _describe(asked, context).then(partial(described, at))
    return pending


def _describe(asked: Request.Group, context: RequestContext) -> Pending[Group]:
    pending: Pending[Group] = Pending()
    image = context.broker.image

    def read(reply: ShareTopicsRead) -> None:
        if reply.error_code:
            failed = Group(
                group_id=asked.group_id, topics=(), error_code=reply.error_code, error_message=reply.error_message
            )
            pending.complete(failed)
            return
        incarnations = reply.incarnations
        known = [topic for topic_id in incarnations if (topic := image.topic_by_id(topic_id)) is not None]
        topics = _of_topics(known) if asked.topics is None else _asked(asked.topics, image)
        partitions = [
            (topic.topic_id, number)
            for topic, _, numbers in topics
            if topic is not None and topic.topic_id in incarnations
            for number in numbers
            if 0 <= number < topic.partition_count
        ]
        context.broker.shares.leaders.ask_patiently(
            share_describe.API,
            partitions,
            lambda ones: _request(asked.group_id, ones),
            lambda request: ShareDescriptions(context.broker.shares, context.broker.machine, request),
            lambda response: response.shares,
        ).then(lambda shares: pending.complete(_group(asked.group_id, topics, incarnations, shares)))

    ask_group(context.broker.coordinators, asked.group_id, ReadShareTopics(waiter=read, group_id=asked.group_id))
    return pending


_Shares = Mapping[PartitionKey, share_describe.Response.Share]

_Asked = tuple[Topic | None, str, Sequence[int]]
"""A topic, its name, and the partitions to describe; the topic is None if there is none of that name."""


def _of_topics(topics: Iterable[Topic]) -> list[_Asked]:
    return [(topic, topic.name, range(topic.partition_count)) for topic in topics]


def _asked(topics: Iterable[Request.Group.Topic], image: ClusterImage) -> list[_Asked]:
    return [(image.topic(it.topic_name), it.topic_name, it.partitions) for it in topics]


def _request(group: str, partitions: Sequence[PartitionKey]) -> share_describe.Request:
    return share_describe.Request(
        group_id=group,
        partitions=[
            share_describe.Request.Partition(topic_id=topic_id, partition=number) for topic_id, number in partitions
        ],
    )


def _group(group: str, topics: Sequence[_Asked], incarnations: Mapping[TopicId, int], shares: _Shares) -> Group:
    return Group(
        group_id=group,
        error_code=errors.NONE,
        topics=[
            Group.Topic(
                topic_name=name,
                topic_id=NO_TOPIC_ID if topic is None else topic.topic_id,
                partitions=[_partition(topic, number, incarnations, shares) for number in numbers],
            )
            for topic, name, numbers in topics
        ],
    )


def _partition(
    topic: Topic | None,
    number: int,
    incarnations: Mapping[TopicId, int],
    shares: _Shares,
) -> Partition:
    if topic is None or not 0 <= number < topic.partition_count:
        code = errors.UNKNOWN_TOPIC_OR_PARTITION
        return Partition(partition_index=number, start_offset=-1, leader_epoch=-1, error_code=code)
    not_read = Partition(partition_index=number, start_offset=-1, leader_epoch=-1, error_code=errors.NONE)
    if topic.topic_id not in incarnations:
        return not_read
    share = shares.get((topic.topic_id, number))
    if share is None:
        code = errors.LEADER_NOT_AVAILABLE
        return Partition(partition_index=number, start_offset=-1, leader_epoch=-1, error_code=code)
    if share.start >= 0 and share.incarnation < incarnations[topic.topic_id]:
        return not_read  # The group's offsets were deleted, and the leader has not removed or replaced its share yet.
    return Partition(
        partition_index=number,
        start_offset=share.start,
        leader_epoch=share.leader_epoch,
        lag=share.lag,
        error_code=share.error_code,
    )

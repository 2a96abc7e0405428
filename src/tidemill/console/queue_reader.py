"""Reads share groups: topics and members from their coordinators, and the state of their queues from the leaders."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidemill.client.failures import ClientError
from tidemill.console.cluster_reader import PARTITIONS_MAX, ClusterReader
from tidemill.console.cluster_view import PartitionRow
from tidemill.console.group_reader import GroupRow, MemberRow
from tidemill.console.queue_view import Described, Queue, QueuePartition
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.peer import share_describe
from tidemill.wire.messages import describe_share_group_offsets, share_group_describe

Partitions = Callable[[str], Sequence[PartitionRow] | None]
"""Returns the partitions of a topic; None if it does not exist."""


@dataclass(slots=True)
class ShareTopics:
    """The topics that a share group reads."""

    ids: dict[str, TopicId] = field(default_factory=dict)  # by name, in alphabetical order
    lag: int | None = None  # records that the group has not finished; None if that of a partition is unknown


def topics(reader: ClusterReader, rows: Iterable[GroupRow]) -> tuple[dict[str, ShareTopics], tuple[str, ...]]:
    """Return the topics of each share group, and a message about each problem."""
    by_coordinator: dict[int, list[str]] = {}
    for row in rows:
        by_coordinator.setdefault(row.coordinator, []).append(row.group_id)
    found: dict[str, ShareTopics] = {}
    problems = []
    for coordinator, groups in by_coordinator.items():
        asked = describe_share_group_offsets.Request.Group
        request = describe_share_group_offsets.Request(groups=[asked(group_id=it, topics=None) for it in groups])
        try:
            response: describe_share_group_offsets.Response = reader.ask(
                coordinator, describe_share_group_offsets.API, request
            )
        except ClientError as error:
            problems.append(f"Topics of share groups coordinated by broker {coordinator} are missing: {error}")
            continue
        for group in response.groups:
            if group.error_code == errors.NONE:
                found[group.group_id] = _topics_of(group)
            elif group.error_code != errors.GROUP_ID_NOT_FOUND:  # the group has just been deleted
                problems.append(f"Topics of share group {group.group_id} are missing: {errors.name(group.error_code)}")
    return found, tuple(problems)


def _topics_of(group: describe_share_group_offsets.Response.Group) -> ShareTopics:
    answers = [answer for topic in group.topics for answer in topic.partitions]
    is_known = all(answer.error_code == errors.NONE for answer in answers)
    return ShareTopics(
        ids={topic.topic_name: topic.topic_id for topic in sorted(group.topics, key=lambda it: it.topic_name)},
        lag=sum(max(answer.lag, 0) for answer in answers) if is_known else None,
    )


def queues(
    reader: ClusterReader, by_group: Mapping[str, ShareTopics], partitions: Partitions
) -> tuple[list[Queue], tuple[str, ...]]:
    """Return the queues of share groups, and a message about each problem."""
    rows: dict[tuple[str, str], Sequence[PartitionRow]] = {}
    led: dict[int, dict[str, list[tuple[TopicId, TopicPartition]]]] = {}  # leader → group → partitions
    count = 0
    for group_id, known in by_group.items():
        for topic, topic_id in known.ids.items():
            found = partitions(topic) or ()
            count += len(found)
            rows[group_id, topic] = found if count <= PARTITIONS_MAX else ()
            for row in rows[group_id, topic]:
                if row.leader is not None:
                    asked = led.setdefault(row.leader, {}).setdefault(group_id, [])
                    asked.append((topic_id, TopicPartition(topic, row.number)))
    shares: dict[tuple[str, TopicPartition], Described] = {}
    problems = []
    for leader, groups in led.items():
        try:
            for group_id, wanted in groups.items():
                shares |= {(group_id, it): share for it, share in _describe(reader, leader, group_id, wanted)}
        except ClientError as error:
            problems.append(f"The state of partitions led by broker {leader} is missing: {error}")
    if count > PARTITIONS_MAX:
        problems.append(f"Only the first {PARTITIONS_MAX:,} partitions of these queues are shown.")
    return [
        Queue(
            group_id=group_id,
            topic=topic,
            partitions=[
                QueuePartition(row=row, share=shares.get((group_id, TopicPartition(topic, row.number))))
                for row in partition_rows
            ],
        )
        for (group_id, topic), partition_rows in rows.items()
    ], tuple(problems)


def _describe(
    reader: ClusterReader, leader: int, group_id: str, wanted: Sequence[tuple[TopicId, TopicPartition]]
) -> list[tuple[TopicPartition, Described]]:
    """Return the shares that a leader describes.  Raise ClientError."""
    request = share_describe.Request(
        group_id=group_id,
        partitions=[
            share_describe.Request.Partition(topic_id=topic_id, partition=it.partition) for topic_id, it in wanted
        ],
    )
    response: share_describe.Response = reader.ask(leader, share_describe.API, request, version=0)
    if response.error_code != errors.NONE:
        raise ClientError(errors.name(response.error_code))
    answers = zip((it for _, it in wanted), response.shares, strict=True)
    return [(it, share) for it, share in answers if share.error_code == errors.NONE]


def members(reader: ClusterReader, row: GroupRow) -> list[MemberRow]:
    """Return the members of a share group.  Raise ClientError."""
    response: share_group_describe.Response = reader.ask(
        row.coordinator,
        share_group_describe.API,
        share_group_describe.Request(group_ids=[row.group_id], include_authorized_operations=False),
    )
    group = response.groups[0]
    if group.error_code not in (errors.NONE, errors.GROUP_ID_NOT_FOUND):
        raise ClientError(f"broker {row.coordinator} does not describe the group: {errors.name(group.error_code)}")
    return [
        MemberRow(
            member_id=it.member_id,
            instance_id=None,
            client_id=it.client_id,
            host=it.client_host,
            partitions=[
                TopicPartition(topic.topic_name, number)
                for topic in it.assignment.topic_partitions
                for number in topic.partitions
            ],
        )
        for it in group.members
    ]
